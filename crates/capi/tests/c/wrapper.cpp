// The C++ wrapper: exceptions, owners that release, and get_or_build: wrapper STORE.
#include <opkeep.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::cerr << __FILE__ << ':' << __LINE__ << ": " << #condition << '\n';                                    \
            std::_Exit(1);                                                                                             \
        }                                                                                                              \
    } while (0)

namespace {

template <class Body>
void fails(opkeep_code code, const std::string &text, Body &&body) {
    try {
        body();
    } catch (const opkeep::error &failure) {
        CHECK(failure.code() == code);
        CHECK(std::string(failure.what()).find(text) != std::string::npos);
        return;
    }
    CHECK(!"no exception");
}

template <class Owner>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<Owner> && std::is_nothrow_move_assignable_v<Owner> &&
                            !std::is_copy_constructible_v<Owner> && !std::is_copy_assignable_v<Owner>;
static_assert(moves_only<opkeep::cache> && moves_only<opkeep::target> && moves_only<opkeep::hit> &&
              moves_only<opkeep::ticket> && moves_only<opkeep::cancel_source>);

opkeep::key key_of(const std::string &text) { return opkeep::key(opkeep::digest_of(text)); }

opkeep::new_files one_file(const std::string &bytes) {
    opkeep::new_files made;
    made.add("file", bytes);
    return made;
}

void build_once(const opkeep::target &target) {
    int builds = 0;
    const auto get = [&] {
        return target.get_or_build(key_of("once").name("group").part("cc", opkeep::digest_of("cc"), "1.0"), [&] {
            ++builds;
            return one_file("data");
        });
    };
    const opkeep::files made = get();
    const opkeep::files found = get();
    CHECK(builds == 1 && !made.is_hit() && found.is_hit());
    for (const opkeep::files *files : {&made, &found}) {
        CHECK(files->size() == 1 && (*files)[0].name == "file" && files->at("file") == "data");
        CHECK(!files->find("other"));
        fails(OPKEEP_CODE_NOT_FOUND, "`other`", [&] { files->at("other"); });
    }
    // Another group, and another compiler, are other keys.
    CHECK(!target.get(key_of("once")) && !target.get(key_of("once").name("group")));
}

void throw_in_a_build(const opkeep::target &target) {
    const auto broken = [&] {
        target.get_or_build(key_of("thrown"), []() -> opkeep::new_files { throw std::logic_error("broken compiler"); });
    };
    for (int i = 0; i < 2; ++i) {
        try {
            broken();
            CHECK(!"no exception");
        } catch (const std::logic_error &failure) {
            CHECK(failure.what() == std::string("broken compiler"));
        }
    }
    // The ticket was abandoned: another thread, which would wait, gets one.
    std::thread([&] {
        opkeep::request soon;
        soon.timeout = std::chrono::seconds(5);
        CHECK(!target.get_or_build(key_of("thrown"), [] { return one_file("data"); }, soon).is_hit());
    }).join();
}

// Files that cannot be stored are not lost, and the ticket is abandoned.
void build_what_cannot_be_kept(const opkeep::target &target) {
    const auto get = [&](const std::string &name, const std::string &bytes) {
        return target.get_or_build(key_of("not kept"), [&] {
            opkeep::new_files made;
            made.add(name, bytes);
            return made;
        });
    };
    const opkeep::files empty = get("file", "");
    CHECK(!empty.is_hit() && empty.at("file").empty() && empty.not_kept().find("is empty") != std::string::npos);
    const opkeep::files elsewhere = get("directory/file", "data");
    CHECK(elsewhere.at("directory/file") == "data" && elsewhere.not_kept().find("directory/file") != std::string::npos);
    CHECK(target.get_or_begin(key_of("not kept")).outcome == OPKEEP_OUTCOME_BEGIN);
    CHECK(get("file", "data").not_kept().empty() && get("file", "data").is_hit());
}

// All files are made once, whatever is stored.
void force(const opkeep::target &target, const std::string &store) {
    CHECK(target.put(key_of("forced"), one_file("old")));
    const opkeep::cache cache(store, "test", OPKEEP_MODE_FORCE);
    const opkeep::target forced = cache.target("target-1");
    CHECK(!forced.get(key_of("forced")));
    const auto get = [&] { return forced.get_or_build(key_of("forced"), [] { return one_file("new"); }); };
    CHECK(!get().is_hit() && get().is_hit() && get().at("file") == "new");
    CHECK((*target.get(key_of("forced")))[0].bytes == "new");
}

// A build that needs other files, or its own ones: a thread that holds a ticket waits for no other.
void build_in_a_build(const opkeep::target &target) {
    const auto inner = [&](const std::string &key) {
        return target.get_or_build(key_of(key), [&] { return one_file("inner " + key); });
    };
    const opkeep::files outer = target.get_or_build(key_of("outer"), [&] {
        CHECK(inner("other").at("file") == "inner other" && inner("other").is_hit());
        // The files of the outer build are not there yet.
        const opkeep::files own = inner("outer");
        CHECK(!own.is_hit() && own.at("file") == "inner outer");
        return one_file("outer");
    });
    CHECK(!outer.is_hit() && outer.at("file") == "outer");
    CHECK(inner("other").is_hit() && inner("outer").is_hit());
    // An exception that leaves both builds ends both tickets.
    try {
        target.get_or_build(key_of("outer 2"), [&]() -> opkeep::new_files {
            target.get_or_build(key_of("inner 2"), []() -> opkeep::new_files { throw 7; });
            CHECK(!"no exception");
            return {};
        });
        CHECK(!"no exception");
    } catch (int number) {
        CHECK(number == 7);
    }
    CHECK(target.get_or_begin(key_of("outer 2")).outcome == OPKEEP_OUTCOME_BEGIN);
    CHECK(target.get_or_begin(key_of("inner 2")).outcome == OPKEEP_OUTCOME_BEGIN);
}

void own_handles(const opkeep::target &target) {
    opkeep::claim claim = target.get_or_begin(key_of("moved"));
    CHECK(claim.ticket && !claim.hit);
    opkeep::ticket other = std::move(claim.ticket);
    fails(OPKEEP_CODE_HANDLE, "unset", [&] { claim.ticket.publish(one_file("data")); });
    CHECK(other.publish(one_file("data")));
    fails(OPKEEP_CODE_TICKET_ENDED, "has ended", [&] { other.publish(one_file("data")); });
    opkeep::hit hit = *target.get(key_of("moved"));
    const opkeep_hit raw = hit.handle();
    CHECK(hit.size() == 1 && hit[0].bytes == "data" && std::string(hit.info().target) == "target-1");
    hit = opkeep::hit();
    CHECK(opkeep_hit_count(raw) == 0);
    // Assignment releases at once, and leaves the source empty.
    opkeep::claim first = target.get_or_begin(key_of("first"));
    opkeep::ticket second = std::move(first.ticket);
    CHECK(second && !first.ticket);
    first.ticket = std::move(target.get_or_begin(key_of("second")).ticket);
    second = std::move(first.ticket);
    CHECK(second && !first.ticket);
    CHECK(target.get_or_begin(key_of("first")).outcome == OPKEEP_OUTCOME_BEGIN);
    // A text for C ends at a byte 0: two keys would be one.
    const std::string cut("a\0one", 5);
    fails(OPKEEP_CODE_ARGUMENT, "byte 0", [&] { target.get(key_of("cut").name(cut)); });
    fails(OPKEEP_CODE_ARGUMENT, "byte 0", [&] { target.get(key_of("cut").part(cut, opkeep::digest_of(""))); });
    opkeep::new_files named;
    fails(OPKEEP_CODE_ARGUMENT, "byte 0", [&] { target.put(key_of("cut"), named.add(cut, "data")); });
    CHECK(target.put(key_of("moved"), one_file("new")) && (*target.get(key_of("moved")))[0].bytes == "new");
}

void end_waits(const opkeep::target &target) {
    const opkeep::claim held = target.get_or_begin(key_of("held"));
    std::thread([&] {
        const auto build = [] { return one_file("data"); };
        opkeep::request request;
        request.timeout = std::chrono::milliseconds(20);
        fails(OPKEEP_CODE_TIMED_OUT, "time passed", [&] { target.get_or_build(key_of("held"), build, request); });
        opkeep::cancel_source cancel;
        cancel.cancel();
        request = {};
        request.cancel = &cancel;
        fails(OPKEEP_CODE_CANCELLED, "cancelled", [&] { target.get_or_build(key_of("held"), build, request); });
        request = {};
        request.wait = false;
        const opkeep::claim unshared = target.get_or_begin(key_of("held"), request);
        CHECK(unshared.outcome == OPKEEP_OUTCOME_UNSHARED && unshared.ticket && !unshared.reason.empty());
    }).join();
}

void judge_kernels(const opkeep::target &target) {
    const std::string rules = R"({"version":1,"target":"target-1",)"
                              R"("format":{"opaque":{"starts_with":[46,118],"max_bytes":99}},"metadata":"none"})";
    CHECK(opkeep::verify("", ".version 8.0", {}, rules).empty());
    const auto findings = opkeep::verify("", "text", {}, rules);
    CHECK(findings.size() == 1 && findings[0].severity == OPKEEP_SEVERITY_ERROR);
    fails(OPKEEP_CODE_RULES, "unknown", [] { opkeep::verify("unknown", "text"); });
    opkeep::request request;
    request.rules = rules;
    fails(OPKEEP_CODE_KERNEL, findings[0].code, [&] {
        target.get_or_build(key_of("invalid"), [] {
            opkeep::new_files made = one_file("text");
            made.object = "file";
            return made;
        }, request);
    });
    // The caller wants the kernel validated, and does not say which file it is.
    fails(OPKEEP_CODE_ARGUMENT, "`group->object`",
          [&] { target.get_or_build(key_of("no object"), [] { return one_file(".version 8.0"); }, request); });
}

// A build is not lost if its files cannot be kept.
void lose_the_store(const std::string &directory) {
    const opkeep::cache cache(directory, "test");
    const opkeep::files made = cache.target("target-1").get_or_build(key_of("made"), [&] {
        std::filesystem::remove_all(directory);
        std::ofstream(directory) << "in the way";
        return one_file("data");
    });
    CHECK(!made.is_hit() && made.at("file") == "data" && std::filesystem::is_regular_file(directory));
}

void use_no_store() {
    const opkeep::cache cache("/dev/null/store", "test");
    CHECK(cache.next_warning()->kind == OPKEEP_WARNING_KIND_STORE && !cache.next_warning());
    CHECK(cache.target("target-1").get_or_build(key_of("made"), [] { return one_file("data"); }).at("file") == "data");
    fails(OPKEEP_CODE_NAME, "framework", [] { opkeep::cache("/tmp", "a/b"); });
    fails(OPKEEP_CODE_STORE, "/dev/null/store",
          [] { opkeep::cache("/dev/null/store", "test", OPKEEP_MODE_REQUIRE); });
    fails(OPKEEP_CODE_IO, "/does/not/exist", [] { opkeep::digest_of_file("/does/not/exist"); });
}

// Two hosts with stores of their own, and a directory as the engine.
void share_among_hosts(const std::string &base) {
    std::filesystem::create_directories(base + "/engine");
    opkeep::remote_options remote;
    remote.remote = "file://" + base + "/engine";
    const opkeep::cache one(base + "/one", "test", remote);
    const opkeep::target target = one.target("target-1");
    opkeep::request stays;
    stays.stays_here = true;
    CHECK(!target.get_or_build(key_of("shared").part("cc", opkeep::digest_of("cc")), [] { return one_file("data"); }).is_hit());
    CHECK(!target.get_or_build(key_of("launcher"), [] { return one_file("elf"); }, stays).is_hit());
    CHECK(one.finish_uploads(std::chrono::seconds(20)) == 0);

    const opkeep::cache other(base + "/other", "test", remote);
    const opkeep::target there = other.target("target-1");
    std::vector<opkeep::claim> claims = there.get_or_begin_many(
        {key_of("shared").part("cc", opkeep::digest_of("cc")), key_of("launcher"), key_of("new")}, 1);
    CHECK(claims.size() == 3 && claims[0].outcome == OPKEEP_OUTCOME_HIT && claims[1].outcome == OPKEEP_OUTCOME_BEGIN &&
          claims[2].outcome == OPKEEP_OUTCOME_PENDING);
    CHECK(claims[0].hit[0].bytes == "data" && claims[0].hit.info().from_remote == 1);
    claims[1].ticket.publish(one_file("own elf"));
    CHECK(there.get_or_begin_many({}, 1).empty());

    remote.remote_mode = "all";
    fails(OPKEEP_CODE_ARGUMENT, "`options->remote_mode` is `all`", [&] { opkeep::cache(base + "/one", "test", remote); });
}

} // namespace

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const opkeep::cache cache(argv[1], "test");
    const opkeep::target target = cache.target("target-1");
    build_once(target);
    throw_in_a_build(target);
    build_in_a_build(target);
    build_what_cannot_be_kept(target);
    force(target, argv[1]);
    own_handles(target);
    end_waits(target);
    judge_kernels(target);
    use_no_store();
    lose_the_store(argv[1] + std::string("-lost"));
    share_among_hosts(argv[1] + std::string("-hosts"));
    return 0;
}
