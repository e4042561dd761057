// All kernels, for compiling them to PTX (`cargo xtask gpu --write`).
#include "bfloat16.cu"
#include "lattice.cu"
#include "rans.cu"
#include "sparse.cu"
#include "tables.cu"
