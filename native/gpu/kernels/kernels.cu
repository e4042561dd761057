// All kernels, for compiling them to PTX (`cargo xtask gpu --write`).
#include "bfloat16.cu"
#include "difference.cu"
#include "digest.cu"
#include "lattice.cu"
#include "rans.cu"
#include "sparse.cu"
#include "tables.cu"
#include "xor.cu"
