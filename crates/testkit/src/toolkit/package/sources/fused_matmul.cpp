#include "kernel_operator.h"
#include "fused_matmul_tiling.h"

using namespace AscendC;

// Cube cores multiply, vector cores add the bias.
extern "C" __global__ __aicore__ void fused_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR == 1", FusedMatmulTiling);
    GET_TILING_DATA(data, tiling);
    GlobalTensor<DTYPE_A> left, right, added, product;
    left.SetGlobalBuffer(reinterpret_cast<DTYPE_A *>(a), data.m * data.k);
    right.SetGlobalBuffer(reinterpret_cast<DTYPE_A *>(b), data.k * data.n);
    added.SetGlobalBuffer(reinterpret_cast<DTYPE_A *>(bias), data.n);
    product.SetGlobalBuffer(reinterpret_cast<DTYPE_A *>(c), data.m * data.n);
    if (TILING_KEY_IS(1)) {
#ifdef __DAV_C220_CUBE__
        Mmad(product, left, right, data.m, data.n, data.k);
#else
        Add(product, product, added, data.n);
#endif
    }
#if DETERMINISTIC_MODE
    SyncAll(product);
#endif
}
