// Shared by the operators of this project.
#pragma once

#include "kernel_operator.h"

namespace common {

template <typename T> inline void CopyRow(GM_ADDR to, uint32_t toRow, GM_ADDR from, uint32_t fromRow, uint32_t width)
{
    AscendC::GlobalTensor<T> source, target;
    source.SetGlobalBuffer(reinterpret_cast<T *>(from) + uint64_t(fromRow) * width, width);
    target.SetGlobalBuffer(reinterpret_cast<T *>(to) + uint64_t(toRow) * width, width);
    AscendC::DataCopy(target, source, width);
}

} // namespace common
