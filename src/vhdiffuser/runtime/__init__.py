"""Inference without torch: networks as ONNX graphs, computed by ONNX Runtime on the calling thread."""
