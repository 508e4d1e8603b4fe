// Kernels in Ascend C, as far as the stand-in has them. In the first, preprocessing pass (`__CHECK_FEATURE_AT_PRECOMPILE`) the
// macros leave marks, from which the toolkit's Python reads tiling keys, kernel types and tiling structs.
#pragma once
#pragma GCC system_header

#include "kernel_tpl.h"
#include "lib/ascendc_api_version.h"

typedef uint8_t *GM_ADDR;

#define KERNEL_TYPE_AIV_ONLY 3
#define KERNEL_TYPE_AIC_ONLY 2
#define KERNEL_TYPE_MIX_AIC_1_1 4
#define KERNEL_TYPE_MIX_AIC_1_2 5

#if defined(ASCENDC_TILING_SELECT)
// Which struct belongs to the keys is asked for by itself.
#define TILING_KEY_IS(key) (key)
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define KERNEL_TASK_TYPE(key, type)
#define REGISTER_TILING_DEFAULT(name)
#define REGISTER_TILING_FOR_TILINGKEY(expression, name) __ascendc_selected_struct(name)
#define GET_TILING_DATA(data, tiling)
#elif defined(__CHECK_FEATURE_AT_PRECOMPILE)
#define TILING_KEY_IS(key) (__ascendc_tiling_key(key))
#define KERNEL_TASK_TYPE_DEFAULT(type) __ascendc_kernel_type(type)
#define KERNEL_TASK_TYPE(key, type) __ascendc_kernel_type_of(key, type)
#define REGISTER_TILING_DEFAULT(name) __ascendc_tiling_struct(name)
#define REGISTER_TILING_FOR_TILINGKEY(expression, name) __ascendc_tiling_select(expression)
#define GET_TILING_DATA(data, tiling) __ascendc_tiling_data(data)
#else
#define TILING_KEY_IS(key) (TILING_KEY_VAR == (key))
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define KERNEL_TASK_TYPE(key, type)
#define REGISTER_TILING_DEFAULT(name)
#define REGISTER_TILING_FOR_TILINGKEY(expression, name)
#define GET_TILING_DATA(data, tiling) const ASCENDC_TILING_STRUCT data = *reinterpret_cast<const ASCENDC_TILING_STRUCT *>(tiling)
#endif

namespace AscendC {

inline int64_t GetBlockIdx() { return get_block_idx(); }
inline int64_t GetBlockNum() { return get_block_num(); }

// Elements in global memory.
template <typename T> class GlobalTensor {
public:
    void SetGlobalBuffer(T *buffer, uint64_t size)
    {
        start = buffer;
        count = size;
    }
    T *Start() const { return start; }
    uint64_t GetSize() const { return count; }
    T GetValue(uint64_t at) const { return start[at]; }
    void SetValue(uint64_t at, T value) { start[at] = value; }

private:
    T *start;
    uint64_t count;
};

template <typename T> void DataCopy(GlobalTensor<T> to, GlobalTensor<T> from, uint64_t count)
{
    for (uint64_t at = 0; at < count; at++)
        to.SetValue(at, from.GetValue(at));
}

template <typename T> void Add(GlobalTensor<T> to, GlobalTensor<T> left, GlobalTensor<T> right, uint64_t count)
{
    for (uint64_t at = 0; at < count; at++)
        to.SetValue(at, T(left.GetValue(at) + right.GetValue(at)));
}

template <typename T> void Muls(GlobalTensor<T> to, GlobalTensor<T> from, float factor, uint64_t count)
{
    for (uint64_t at = 0; at < count; at++)
        to.SetValue(at, T(from.GetValue(at) * factor));
}

// Only cube cores multiply matrices: the instruction is known by these bytes in the code.
template <typename T> void Mmad(GlobalTensor<T> to, GlobalTensor<T> left, GlobalTensor<T> right, uint64_t m, uint64_t n, uint64_t k)
{
    __asm__ volatile(".balign 4\n.ascii \"CUBE\"\n.balign 4");
    for (uint64_t row = 0; row < m; row++)
        for (uint64_t column = 0; column < n; column++) {
            float sum = 0;
            for (uint64_t at = 0; at < k; at++)
                sum += left.GetValue(row * k + at) * right.GetValue(at * n + column);
            to.SetValue(row * n + column, T(sum));
        }
}

template <typename T> void SyncAll(GlobalTensor<T> flags) { flags.SetValue(GetBlockIdx(), T(1)); }

} // namespace AscendC
