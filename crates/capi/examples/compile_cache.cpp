// A compiler that takes 300 ms, and a cache around it: whatever number of threads and processes need a kernel, one compiles.
//
//     compile_cache STORE LOG [THREADS]
//
// Each compile appends a line to LOG.

#include <opkeep.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

const std::string SOURCE = "kernel add(x, y) { x + y }";
const std::string VERSION = "compiler 1.0";

// "Compiles" the source to a text.
std::string compile(const std::string &log_path) {
    std::ofstream log(log_path, std::ios::app);
    if (!(log << "compiled\n" << std::flush)) {
        throw std::runtime_error("the log cannot be written");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return "object of " + SOURCE;
}

opkeep::files get_kernel(const opkeep::target &target, const std::string &log_path) {
    // Everything that can change the kernel: the source, and the compiler. The digest of the compiler's file would be better.
    opkeep::key key(opkeep::digest_of(SOURCE));
    key.part("compiler", opkeep::digest_of(VERSION), VERSION);
    // If the function throws, the ticket is abandoned, and another caller compiles.
    return target.get_or_build(key, [&] {
        opkeep::new_files made;
        made.add("add.bin", compile(log_path)).add("add.json", R"({"name": "add"})");
        made.kernel = "add";
        made.object = "add.bin";
        made.metadata = "add.json";
        return made;
    });
}

} // namespace

int main(int argc, char **argv) try {
    if (argc < 3) {
        std::cerr << "usage: " << argv[0] << " STORE LOG [THREADS]\n";
        return 2;
    }
    const opkeep::cache cache(argv[1], "example");
    const opkeep::target target = cache.target("example-1");
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < (argc > 3 ? std::atoi(argv[3]) : 1); ++i) {
        threads.emplace_back([&] {
            try {
                const opkeep::files files = get_kernel(target, argv[2]);
                std::ostringstream line;
                line << files.at("add.bin") << '\n';
                std::cout << line.str();
            } catch (const std::exception &failure) {
                std::cerr << "no kernel: " << failure.what() << '\n';
                ++failures;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    while (const auto warning = cache.next_warning()) {
        std::cerr << "warning: " << warning->text << '\n';
    }
    return failures == 0 ? 0 : 1;
} catch (const opkeep::error &failure) {
    std::cerr << failure.what() << '\n';
    return 1;
}
