#include "kernel_operator.h"
#include "scale_custom_tiling.h"
#include "scale_custom_tiling_key.h"

using namespace AscendC;

template <uint32_t STEP, bool ALIGNED>
__global__ __aicore__ void scale_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(ScaleTiling);
    GET_TILING_DATA(data, tiling);
    const uint64_t begin = GetBlockIdx() * uint64_t(data.length);
    GlobalTensor<DTYPE_X> from, to;
    from.SetGlobalBuffer(reinterpret_cast<DTYPE_X *>(x) + begin, data.length);
    to.SetGlobalBuffer(reinterpret_cast<DTYPE_Y *>(y) + begin, data.length);
    uint32_t count = data.length / STEP * STEP;
    if (!ALIGNED) {
        count = data.length;
    }
#ifdef HIGH_PRECISION
    Muls(to, from, data.factor, count);
#else
    Muls(to, from, float(half(data.factor)), count);
#endif
}
