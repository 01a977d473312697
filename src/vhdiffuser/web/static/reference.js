// API reference, generated from the server's OpenAPI description.

const text = (name, content, className) => {
  const element = document.createElement(name);
  element.textContent = content;
  if (className) element.className = className;
  return element;
};

const description = await (await fetch("openapi.json")).json();
const named = (reference) => description.components.schemas[reference.split("/").pop()];

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.type === "array") return `${kind(schema.items)}[]`;
  return schema.type ?? "any";
}

function table(schema) {
  const result = document.createElement("table");
  for (const [name, field] of Object.entries(schema.properties)) {
    const row = result.insertRow();
    row.insertCell().append(text("code", name + (schema.required?.includes(name) ? "" : "?")));
    row.insertCell().append(text("code", kind(field)));
    row.insertCell().textContent = field.description ?? "";
  }
  return result;
}

for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, route] of Object.entries(methods)) {
    const card = text("section", "", "card");
    card.append(text("h2", `${method.toUpperCase()} ${path}`), text("p", route.description));
    const body = route.requestBody?.content["application/json"].schema;
    if (body?.$ref) card.append(text("p", `Send ${kind(body)}:`, "fine"), table(named(body.$ref)));
    const reply = route.responses["200"]?.content?.["application/json"]?.schema;
    if (reply) card.append(text("p", `Get ${kind(reply)}${reply.$ref ? ":" : ""}`, "fine"));
    if (reply?.$ref) card.append(table(named(reply.$ref)));
    document.getElementById("routes").append(card);
  }
}
