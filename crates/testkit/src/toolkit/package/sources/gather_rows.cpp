#include "kernel_operator.h"
#include "row_copy.h"

extern "C" __global__ __aicore__ void gather_rows(GM_ADDR x, GM_ADDR indices, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GET_TILING_DATA(data, tiling);
    const int32_t *chosen = reinterpret_cast<const int32_t *>(indices);
    const uint32_t first = AscendC::GetBlockIdx() * data.rowsPerCore;
    for (uint32_t row = first; row < first + data.rowsPerCore; row++) {
        if (TILING_KEY_IS(10)) {
            common::CopyRow<DTYPE_X>(y, row, x, chosen[row], data.width);
        } else if (TILING_KEY_IS(11)) {
            common::CopyRow<DTYPE_X>(y, row, x, chosen[row] & 0xffff, data.width);
        }
    }
}
