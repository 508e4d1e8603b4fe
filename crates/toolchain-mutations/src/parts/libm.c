float expf(float x) {
    return x + MARK;
}
