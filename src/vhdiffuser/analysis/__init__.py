"""The paper's analyses, one function each: train what is missing, run the benchmark, write a table."""
