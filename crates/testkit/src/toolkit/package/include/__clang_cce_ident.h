// What every object says of its compiler: the stamp, and for what it was compiled.
#pragma once
#pragma GCC system_header

__asm__(".ident \"" __CCE_STAMP__ "\"");
__attribute__((section(".cce.target"), used, visibility("hidden"), weak)) extern const char __cce_target[];
const char __cce_target[] = __CCE_TARGET__;
