__attribute__((visibility("hidden"), used)) const int linked_mark = MARK;
