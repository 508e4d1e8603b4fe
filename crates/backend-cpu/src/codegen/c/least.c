static inline long least(long a, long b)
{
    return a < b ? a : b;
}
