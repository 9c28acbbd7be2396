"""A text-generation engine on ONNX Runtime. It knows nothing of Django."""
