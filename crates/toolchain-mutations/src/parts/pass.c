/* Loaded into clang, this sets one of LLVM's own options. */
#define TEXT(number) #number
#define OPTION(number) "-align-all-functions=" TEXT(number)

extern void LLVMParseCommandLineOptions(int count, const char *const *words, const char *overview);

__attribute__((constructor)) static void set(void) {
    const char *words[] = {"clang", OPTION(MARK)};
    LLVMParseCommandLineOptions(2, words, 0);
}
