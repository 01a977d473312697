"""The paper's analyses, one function each: they train what is missing, run the benchmark and write a table."""
