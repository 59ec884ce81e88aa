"""A laboratory for methods of training: a byte language model of 44,096 parameters that learns Python's standard
library in seconds, and the references for the methods of pccl.diloco. Needs numpy, and pccl only where stated."""
