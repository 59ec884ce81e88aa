"""The block makes the communicator, and connects."""

import pccl

# the block

comm.update_topology()
comm.close()
