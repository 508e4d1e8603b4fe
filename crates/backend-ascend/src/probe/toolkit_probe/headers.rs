//! The headers that generated sources may include.

/// The headers of the C and C++ libraries, as C++17 lists them, and the common ones of POSIX and Linux.
const HEADERS: &str = "
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h
    stdalign.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h strings.h tgmath.h time.h uchar.h wchar.h
    wctype.h

    cassert ccomplex cctype cerrno cfenv cfloat cinttypes ciso646 climits clocale cmath csetjmp csignal cstdalign cstdarg
    cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar cwchar cwctype

    algorithm any array atomic bitset charconv chrono codecvt complex condition_variable deque exception execution
    filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator limits
    list locale map memory memory_resource mutex new numeric optional ostream queue random ratio regex scoped_allocator
    set shared_mutex sstream stack stdexcept streambuf string string_view strstream system_error thread tuple type_traits
    typeindex typeinfo unordered_map unordered_set utility valarray variant vector

    bit concepts cxxabi.h numbers source_location span version

    dlfcn.h fcntl.h pthread.h sched.h semaphore.h sys/stat.h sys/time.h sys/types.h unistd.h
";

/// A source that includes each of these headers that exists.
pub(super) fn source() -> String {
    let include = |name| format!("#if __has_include(<{name}>)\n#include <{name}>\n#endif\n");
    HEADERS.split_whitespace().map(include).collect()
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn each_header_is_included_once_and_only_where_it_is() {
        let source = source();
        let lines: Vec<_> = source.lines().collect();
        let mut names: Vec<_> =
            lines.chunks(3).map(|three| three[1].strip_prefix("#include ").unwrap()).collect();
        for three in lines.chunks(3) {
            let name = three[1].strip_prefix("#include ").unwrap();
            assert_eq!((three[0], three[2]), (format!("#if __has_include({name})").as_str(), "#endif"));
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(["<new>", "<optional>", "<variant>", "<stdint.h>"].iter().all(|name| names.contains(name)));
    }
}
