#define START -__builtin_inff()

/* The greater one; what is not a number stays. */
static inline float with_element(float so_far, float element)
{
    return element > so_far || element != element ? element : so_far;
}

static inline void finish(long oz, long oy, float *y)
{
    (void)oz;
    (void)oy;
    (void)y;
}
