// Template arguments that tiling keys choose. In the pass that looks for them (`ASCENDC_TPL_PRE`) the declarations leave marks;
// later they are gone.
#pragma once
#pragma GCC system_header

#define ASCENDC_TPL_8_BW 8
#define ASCENDC_TPL_1_BW 1

#ifdef ASCENDC_TPL_PRE
#define ASCENDC_TPL_ARGS_DECL(op, ...) __ascendc_tpl_decl(op, __VA_ARGS__) __ascendc_tpl_end
#define ASCENDC_TPL_UINT_DECL(name, bits, ...) __ascendc_tpl_uint(name, bits, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_DECL(name, ...) __ascendc_tpl_bool(name, 1, __VA_ARGS__)
#define ASCENDC_TPL_SEL(...) __ascendc_tpl_sel __VA_ARGS__ __ascendc_tpl_end
#define ASCENDC_TPL_ARGS_SEL(...) __ascendc_tpl_row __VA_ARGS__ __ascendc_tpl_row_end
#define ASCENDC_TPL_UINT_SEL(name, ...) __ascendc_tpl_values(name, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_SEL(name, ...) __ascendc_tpl_values(name, __VA_ARGS__)
#else
#define ASCENDC_TPL_ARGS_DECL(op, ...)
#define ASCENDC_TPL_SEL(...)
#endif
