"""Inference without torch: networks as ONNX graphs, evaluated by ONNX Runtime on the calling thread."""
