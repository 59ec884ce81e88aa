"""A laboratory for methods of training: a byte language model of 44,096 parameters that learns
Python's own standard library in seconds, and what the methods of pccl.diloco are measured by. Needs
numpy and nothing of pccl but where it says so."""
