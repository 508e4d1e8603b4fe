#include "kernel_operator.h"
#include "add_custom_tiling.h"

using namespace AscendC;

// Each core adds its part; the second form has a tail.
template <typename T> class KernelAdd {
public:
    __aicore__ inline KernelAdd(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t length)
    {
        const uint64_t begin = GetBlockIdx() * uint64_t(length);
        left.SetGlobalBuffer(reinterpret_cast<T *>(x) + begin, length);
        right.SetGlobalBuffer(reinterpret_cast<T *>(y) + begin, length);
        sum.SetGlobalBuffer(reinterpret_cast<T *>(z) + begin, length);
    }

    __aicore__ inline void Process(uint32_t count) { Add(sum, left, right, count); }

private:
    GlobalTensor<T> left, right, sum;
};

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(AddTiling);
    GET_TILING_DATA(data, tiling);
    KernelAdd<DTYPE_X> kernel(x, y, z, data.blockLength);
    if (TILING_KEY_IS(1)) {
        kernel.Process(data.blockLength);
    } else if (TILING_KEY_IS(2)) {
        kernel.Process(data.blockLength + data.tailLength);
    }
}
