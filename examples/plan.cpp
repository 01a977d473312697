// A plan from ONNX models in C++: the same plan as Python's, from the folder that `vhd export onnx ENV --piece 0 --gamma 1.25` writes.
//
//   g++ -std=c++17 -O2 examples/plan.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o plan
//   ./plan out/onnx/maze2d-umaze 1 1 0 0  3 1  --seed 7 > plan.csv
//
// Prints one state per line, at the control rate. Needs ONNX Runtime's C++ header and library, nothing else. Plans are
// drawn whole with DDIM and v-prediction (all that ships); states are positions with velocities, or positions alone.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Numbers of config.json: a number or a flat list under a key, searched for after another key.
struct Config {
  std::string text;
  explicit Config(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  Doubles list(const std::string& after, const std::string& key) const {
    size_t at = text.find('"' + key + '"', text.find('"' + after + "\": {"));
    if (at == std::string::npos) throw std::runtime_error("config.json has no " + after + "." + key);
    size_t begin = text.find(':', at) + 1, end = text.find_first_of(",}", begin), open = text.find('[', begin);
    if (open < end) begin = open + 1, end = text.find(']', begin);
    Doubles values;
    for (const char* p = text.c_str() + begin; p < text.c_str() + end;) {
      char* rest;
      double value = std::strtod(p, &rest);
      rest == p ? ++p : (values.push_back(value), p = rest);
    }
    return values;  // empty for null
  }
  double number(const std::string& after, const std::string& key) const { return list(after, key).at(0); }
};

// The noise of a seed, as in Python: the Mersenne Twister, and Box-Muller's transformation in blocks of 16.
Floats noise(uint64_t seed, size_t count) {
  if (count < 16) throw std::runtime_error("plans of so few numbers draw their noise in another way");
  std::mt19937 twister(static_cast<uint32_t>(seed));
  auto uniform = [&] { return float(twister() & 0xFFFFFF) * (1.0f / (1 << 24)); };
  auto transform = [](float* block) {
    for (int i = 0; i < 8; ++i) {
      float length = std::sqrt(-2 * std::log(1 - block[i])), angle = float(2 * M_PI) * block[i + 8];
      block[i] = length * std::cos(angle), block[i + 8] = length * std::sin(angle);
    }
  };
  Floats values(count);
  std::generate(values.begin(), values.end(), uniform);
  for (size_t at = 0; at + 16 <= count; at += 16) transform(&values[at]);
  if (count % 16) {
    std::generate(values.end() - 16, values.end(), uniform);
    transform(&values[count - 16]);
  }
  return values;
}

struct Network {
  Ort::Session session;
  Network(Ort::Env& env, const std::string& path) : session(env, path.c_str(), options()) {}
  static Ort::SessionOptions options() {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    return options;
  }
  Floats run(const std::vector<const char*>& names, const Ort::Value* inputs, const char* output) {
    auto given = session.Run(Ort::RunOptions(), names.data(), inputs, names.size(), &output, 1);
    const float* data = given[0].GetTensorData<float>();
    return Floats(data, data + given[0].GetTensorTypeAndShapeInfo().GetElementCount());
  }
};

template <class T>
Ort::Value tensor(std::vector<T>& data, const std::vector<int64_t>& shape) {
  static auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  return Ort::Value::CreateTensor<T>(memory, data.data(), data.size(), shape.data(), shape.size());
}

// The smoothing spline near K places (and slopes): minimises bending plus weighted squared distances.
// Unknowns are place 0, slope 0, place 1, ...; the symmetric matrix has three bands below its diagonal.
void smooth(Doubles& places, Doubles& slopes, double h, double time, bool moving, bool end) {
  int n = 2 * int(places.size());
  double exact = 1e9 * 12 / (h * h * h), by_slope = moving ? h / (time * time) : 0;
  Doubles weight(n), right(n);
  for (int i = 0; i < n; ++i) weight[i] = i % 2 ? by_slope : h / std::pow(time, 4);
  weight[0] = exact, weight[1] = moving ? exact : 0;
  if (end) weight[n - 2] = exact;
  const double a = 12 / (h * h * h), b = 6 / (h * h), c = 4 / h, d = 2 / h;
  const double bending[4][4] = {{a, b, -a, b}, {b, c, -b, d}, {-a, -b, a, -b}, {b, d, -b, c}};
  std::vector<std::array<double, 4>> band(n, {0, 0, 0, 0});  // band[i][k]: the entry (i, i - k)
  for (int i = 0; i < n; ++i) band[i][0] = weight[i], right[i] = weight[i] * (i % 2 ? slopes : places)[i / 2];
  for (int first = 0; first + 4 <= n; first += 2)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j <= i; ++j) band[first + i][i - j] += bending[i][j];
  for (int i = 0; i < n; ++i)  // Cholesky's factors, in place
    for (int k = std::min(i, 3); k >= 0; --k) {
      double sum = band[i][k];
      for (int m = k + 1; m <= 3 && m <= i; ++m) sum -= band[i][m] * band[i - k][m - k];
      band[i][k] = k ? sum / band[i - k][0] : std::sqrt(sum);
    }
  for (int i = 0; i < n; right[i] /= band[i][0], ++i)
    for (int k = 1; k <= 3 && k <= i; ++k) right[i] -= band[i][k] * right[i - k];
  for (int i = n - 1; i >= 0; right[i] /= band[i][0], --i)
    for (int k = 1; k <= 3 && i + k < n; ++k) right[i] -= band[i + k][k] * right[i + k];
  for (size_t k = 0; k < places.size(); ++k) places[k] = right[2 * k], slopes[k] = right[2 * k + 1];
}

int main(int count, char** words) try {
  if (count < 2) throw std::runtime_error("usage: plan FOLDER START... GOAL... [--seed N]");
  const std::string folder = words[1];
  const Config config(folder + "/config.json");
  for (const char* option : {"risk", "retime", "piece", "wait"})  // none of these, or 0
    for (double value : config.list("planning", option))
      if (value) throw std::runtime_error(folder + ": has the option " + option + "; export with --piece 0 --gamma 1.25");
  Doubles given;
  uint64_t seed = 0;
  for (int i = 2; i < count; ++i)
    if (std::string(words[i]) == "--seed" && i + 1 < count) seed = std::strtoull(words[++i], nullptr, 10);
    else given.push_back(std::atof(words[i]));
  const Doubles low = config.list("normalizer", "low"), high = config.list("normalizer", "high");
  const Doubles goal_dims = config.list("spec", "goal_dims"), speeds = config.list("spec", "velocity_dims");
  const size_t d = low.size(), g = goal_dims.size();
  if (given.size() != d + g) throw std::runtime_error("give a whole start state and the goal's dimensions");
  auto center = [&](size_t i) { return float(high[i] + low[i]) / 2; };
  auto scale = [&](size_t i) { return high[i] > low[i] ? float(high[i] - low[i]) / 2 : 1.0f; };
  Floats start(d), goal(g);  // normalised
  for (size_t i = 0; i < d; ++i) start[i] = (float(given[i]) - center(i)) / scale(i);
  for (size_t i = 0; i < g; ++i) goal[i] = (float(given[d + i]) - center(goal_dims[i])) / scale(goal_dims[i]);
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "plan");
  Network predictor(env, folder + "/length.onnx"), planner(env, folder + "/planner.onnx");
  Ort::Value pair[] = {tensor(start, {1, int64_t(d)}), tensor(goal, {1, int64_t(g)})};
  const double T_max = config.number("spec", "T_max"), f = std::min(predictor.run({"s", "g"}, pair, "f")[0], 1.0f);
  const double wanted = std::ceil(config.number("planning", "gamma") * (float(f) * float(T_max) + 1));
  const int L = int(std::clamp(wanted, config.number("spec", "L_min"), T_max));
  const double stretch = config.number("planning", "stretch"), L_min = config.number("spec", "L_min");
  const int stride = int(config.number("network", "stride"));
  const int sampled = int(std::max(1 + std::nearbyint((L - 1) / stretch), std::min(double(L), L_min)));
  const int K = std::max((2 * (sampled - 1) + stride) / (2 * stride), 1) + 1;
  const Doubles dims_mults = config.list("config", "dim_mults"), levels = config.list("schedule", "levels");
  const Doubles alpha_bar = config.list("schedule", "alpha_bar");
  const int multiple = 1 << (dims_mults.size() - 1), P = (K + multiple - 1) / multiple * multiple;
  Floats tau = noise(seed, P * d);
  auto clamp = [&] {  // the known ends; knots beyond the last repeat it
    std::copy(start.begin(), start.end(), tau.begin());
    for (size_t i = 0; i < g; ++i) tau[(K - 1) * d + size_t(goal_dims[i])] = goal[i];
    for (int k = K; k < P; ++k) std::copy_n(&tau[(K - 1) * d], d, &tau[k * d]);
  };
  clamp();
  for (size_t n = 0; n < levels.size(); ++n) {
    std::vector<int64_t> level = {int64_t(levels[n])};
    Ort::Value inputs[] = {tensor(tau, {1, P, int64_t(d)}), tensor(level, {1})};
    const Floats v = planner.run({"tau", "level"}, inputs, "predicted");
    const float s = std::sqrt(alpha_bar[n]), r = std::sqrt(1 - alpha_bar[n]);
    const float s1 = std::sqrt(alpha_bar[n + 1]), r1 = std::sqrt(1 - alpha_bar[n + 1]);
    for (size_t i = 0; i < tau.size(); ++i) {
      const float tau0 = std::clamp(s * tau[i] - r * v[i], -1.0f, 1.0f);
      tau[i] = s1 * tau0 + r1 * (tau[i] - s * tau0) / r;
    }
    clamp();
  }

  std::vector<Doubles> states(L, Doubles(d));
  const double h = (L - 1.0) / (K - 1), time = config.number("planning", "smoothing"), dt = config.number("spec", "control_dt");
  for (size_t dim = 0; dim < d; ++dim) {
    const size_t at = std::find(goal_dims.begin(), goal_dims.end(), double(dim)) - goal_dims.begin();
    if (at == g && std::find(speeds.begin(), speeds.end(), double(dim)) != speeds.end()) continue;  // with its place
    const bool moving = at < g && !speeds.empty();
    const size_t speed = moving ? size_t(speeds[at]) : dim;
    Doubles places(K), slopes(K);
    for (int k = 0; k < K; ++k) {
      places[k] = tau[k * d + dim] * scale(dim) + center(dim);
      if (moving) slopes[k] = (tau[k * d + speed] * scale(speed) + center(speed)) * dt * (k ? stride / h : 1);
    }
    smooth(places, slopes, h, time, moving, at < g);
    for (int t = 0; t < L; ++t) {  // a cubic Hermite curve
      const int k = std::min(int(t / h), K - 2);
      const double u = t / h - k, p = places[k], q = places[k + 1], v = h * slopes[k], w = h * slopes[k + 1];
      states[t][dim] = p + u * (v + u * (3 * (q - p) - 2 * v - w + u * (2 * (p - q) + v + w)));
      if (moving) states[t][speed] = (v + u * (2 * (3 * (q - p) - 2 * v - w) + u * 3 * (2 * (p - q) + v + w))) / h / dt;
    }
  }
  std::copy_n(given.begin(), d, states[0].begin());
  for (size_t i = 0; i < g; ++i) states[L - 1][size_t(goal_dims[i])] = given[d + i];
  for (const Doubles& state : states)
    for (size_t i = 0; i < d; ++i) std::printf(i + 1 < d ? "%.9g," : "%.9g\n", state[i]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "plan: %s\n", error.what());
  return 1;
}
