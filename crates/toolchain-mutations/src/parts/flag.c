char flag_mark(void) {
    return '0' + MARK;
}
