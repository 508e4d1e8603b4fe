// opkeep for C++17: the functions of opkeep.h with owners that release, exceptions, and get_or_build. Header only.
//
//     opkeep::cache cache("/var/cache/kernels", "my-framework");
//     opkeep::target target = cache.target("cuda-sm_90");
//     opkeep::files files = target.get_or_build(opkeep::key(digest), [&] {
//         opkeep::new_files made;
//         made.add("add.cubin", compile());
//         return made;
//     });
//     load(files.at("add.cubin"));
//
// Every function that fails throws opkeep::error. Owners can be moved, not copied; an owner that was moved from is empty.
// Any thread may use an object, but two threads may not change the same one. Forks: opkeep.h.

#pragma once

#include "opkeep.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opkeep {

// A code and its message.
class error : public std::runtime_error {
public:
    error(opkeep_code code, const std::string &message) : std::runtime_error(message), code_(code) {}

    opkeep_code code() const noexcept { return code_; }

private:
    opkeep_code code_;
};

namespace detail {

[[noreturn]] inline void raise() { throw error(opkeep_last_code(), opkeep_last_message()); }

inline void check(opkeep_code code) {
    if (code != OPKEEP_CODE_OK) {
        raise();
    }
}

// A text for C, which ends at a byte 0: with one in it, two texts would be one.
inline const char *text(const std::string &text) {
    if (text.find('\0') != std::string::npos) {
        throw error(OPKEEP_CODE_ARGUMENT, "the text `" + std::string(text.c_str()) + "...` contains a byte 0");
    }
    return text.c_str();
}

// A text that may be missing.
inline const char *optional(const std::string &text) { return text.empty() ? nullptr : detail::text(text); }

// The owner of a handle.
template <class Handle, opkeep_code (*Release)(Handle)>
class owner {
public:
    owner() noexcept = default;
    explicit owner(Handle handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
    owner &operator=(owner &&other) noexcept {
        // The handle that this owner had is released now, and `other` is empty.
        owner moved(std::move(other));
        std::swap(handle_, moved.handle_);
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner() { Release(handle_); }

    // The handle, for the functions of opkeep.h. The owner keeps it.
    Handle handle() const noexcept { return handle_; }
    // Whether there is a handle.
    explicit operator bool() const noexcept { return handle_.id != 0; }

private:
    Handle handle_{};
};

} // namespace detail

using digest = std::array<std::uint8_t, OPKEEP_DIGEST_SIZE>;

// The SHA-256 of bytes.
inline digest digest_of(std::string_view bytes) {
    digest result{};
    detail::check(opkeep_digest(bytes.data(), bytes.size(), result.data()));
    return result;
}

// The SHA-256 of the content of a file.
inline digest digest_of_file(const std::string &path) {
    digest result{};
    detail::check(opkeep_digest_file(detail::text(path), result.data()));
    return result;
}

// The key of a group of files: a digest of everything that the caller knows to change them.
class key {
public:
    explicit key(const digest &content) : digest_(content) {}

    // The name of the group, if there are several under one digest.
    key &name(std::string name) {
        name_ = std::move(name);
        return *this;
    }

    // A part of the toolchain that the digest does not cover. The note is for people.
    key &part(std::string name, const digest &content, std::string note = {}) {
        parts_.push_back({std::move(name), content, std::move(note)});
        return *this;
    }

private:
    friend class target;

    struct part_of_toolchain {
        std::string name;
        digest content;
        std::string note;
    };

    // A key for C, which points to its own parts, and to the texts of the key that it was made from. It can be moved.
    struct for_c {
        std::vector<opkeep_part> parts;
        opkeep_key key{};
    };

    for_c raw() const {
        for_c result;
        for (const part_of_toolchain &part : parts_) {
            opkeep_part raw{};
            raw.name = detail::text(part.name);
            std::copy(part.content.begin(), part.content.end(), raw.digest);
            raw.note = detail::text(part.note);
            result.parts.push_back(raw);
        }
        result.key.size = sizeof result.key;
        std::copy(digest_.begin(), digest_.end(), result.key.digest);
        result.key.name = detail::optional(name_);
        result.key.toolchain = result.parts.data();
        result.key.toolchain_count = result.parts.size();
        return result;
    }

    // Calls `use` with the key for C.
    template <class Use>
    auto with(Use &&use) const {
        const for_c made = raw();
        return use(made.key);
    }

    digest digest_;
    std::string name_;
    std::vector<part_of_toolchain> parts_;
};

// A file of a hit or of a build; it is valid as long as that is.
struct file {
    std::string_view name;
    std::string_view bytes;
};

// Files to publish, and what reports state of them.
class new_files {
public:
    new_files &add(std::string name, std::string bytes) {
        files_.push_back({std::move(name), std::move(bytes)});
        return *this;
    }

    std::size_t size() const noexcept { return files_.size(); }
    file operator[](std::size_t index) const { return {files_[index].first, files_[index].second}; }

    std::string framework_version;
    std::string kernel;
    std::string object;   // the name of the file with the kernel's object
    std::string metadata; // the name of the file with the kernel's metadata
    std::string rules;    // the rules for the kernel, as JSON
    std::chrono::microseconds compile_time{0}; // if 0, the time since the ticket was taken
    bool is_local = false; // whether the files work on this machine only

private:
    friend class ticket;
    friend class target;

    template <class Use>
    auto with(Use &&use) const {
        std::vector<opkeep_file> files;
        for (const auto &[name, bytes] : files_) {
            files.push_back({detail::text(name), bytes.data(), bytes.size()});
        }
        opkeep_group raw{};
        raw.size = sizeof raw;
        raw.files = files.data();
        raw.file_count = files.size();
        raw.framework_version = detail::text(framework_version);
        raw.kernel = detail::text(kernel);
        raw.object = detail::optional(object);
        raw.metadata = detail::optional(metadata);
        raw.rules = detail::optional(rules);
        raw.compile_time_us = compile_time.count() > 0 ? static_cast<std::uint64_t>(compile_time.count()) : 0;
        raw.flags = is_local ? OPKEEP_LOCAL : 0;
        return use(raw);
    }

    std::vector<std::pair<std::string, std::string>> files_;
};

// The files of a hit, every byte of which was checked. They are not copied.
class hit : public detail::owner<opkeep_hit, opkeep_hit_release> {
public:
    using owner::owner;

    std::size_t size() const noexcept { return opkeep_hit_count(handle()); }

    file operator[](std::size_t index) const {
        opkeep_file raw{};
        detail::check(opkeep_hit_file(handle(), index, &raw));
        return {raw.name, {static_cast<const char *>(raw.data), raw.size}};
    }

    // What is known of the files; the texts are valid as long as the hit.
    opkeep_info info() const {
        opkeep_info raw{};
        raw.size = sizeof raw;
        detail::check(opkeep_hit_info(handle(), &raw));
        return raw;
    }
};

// The files of a hit, or those that this caller made.
class files {
public:
    explicit files(hit found) : hit_(std::move(found)) {}
    explicit files(new_files made, std::string not_kept = {})
        : made_(std::move(made)), not_kept_(std::move(not_kept)) {}

    // Whether another caller made the files, now or earlier.
    bool is_hit() const noexcept { return static_cast<bool>(hit_); }
    // Why the files that this caller made could not be stored; empty if they were, or if the mode stores nothing.
    const std::string &not_kept() const noexcept { return not_kept_; }
    std::size_t size() const noexcept { return is_hit() ? hit_.size() : made_.size(); }
    file operator[](std::size_t index) const { return is_hit() ? hit_[index] : made_[index]; }

    // The bytes of the file called `name`, if there is one.
    std::optional<std::string_view> find(std::string_view name) const {
        for (std::size_t index = 0; index < size(); ++index) {
            if (const file found = (*this)[index]; found.name == name) {
                return found.bytes;
            }
        }
        return std::nullopt;
    }

    // The bytes of the file called `name`.
    std::string_view at(std::string_view name) const {
        if (const auto found = find(name)) {
            return *found;
        }
        throw error(OPKEEP_CODE_NOT_FOUND, "there is no file `" + std::string(name) + "`");
    }

private:
    hit hit_;
    new_files made_;
    std::string not_kept_;
};

// The duty to make files while other callers wait. If it is destroyed before it is published, one of them makes the files.
class ticket : public detail::owner<opkeep_ticket, opkeep_ticket_release> {
public:
    using owner::owner;

    // Publishes all files, or none. Returns whether they were written: a store that is only read keeps nothing.
    bool publish(const new_files &made) {
        int written = 0;
        made.with([&](const opkeep_group &group) { detail::check(opkeep_publish(handle(), &group, &written)); });
        return written != 0;
    }

    // Has one of the waiters make the files.
    void abandon() { detail::check(opkeep_abandon(handle(), nullptr)); }
    // Has all waiters fail for this reason: for a failure that would repeat.
    void fail(const std::string &reason) { detail::check(opkeep_abandon(handle(), detail::text(reason))); }
};

// A token that cancels waits.
class cancel_source : public detail::owner<opkeep_cancel, opkeep_cancel_release> {
public:
    cancel_source() : owner(created()) {}

    void cancel() { detail::check(opkeep_cancel_request(handle())); }

private:
    static opkeep_cancel created() {
        opkeep_cancel raw{};
        detail::check(opkeep_cancel_new(&raw));
        return raw;
    }
};

// The conditions of a request. Times of 0 are the defaults, which opkeep.h states.
struct request {
    std::chrono::milliseconds timeout{0};
    std::chrono::milliseconds stale_after{0};
    std::chrono::milliseconds hold_limit{0};
    const cancel_source *cancel = nullptr;
    std::string rules;
    bool wait = true;
    bool stays_here = false; // whether the files work on this machine only
};

// The result of a request: a hit, a ticket, or a reason why there is neither.
struct claim {
    opkeep_outcome outcome = OPKEEP_OUTCOME_ERROR;
    opkeep::hit hit;
    opkeep::ticket ticket;
    std::string reason;
};

// The files for one target.
class target : public detail::owner<opkeep_target, opkeep_target_close> {
public:
    using owner::owner;

    // The files, if they are there. Does not wait.
    std::optional<hit> get(const key &key) const {
        opkeep_hit raw{};
        const auto outcome = key.with([&](const opkeep_key &raw_key) { return opkeep_get(handle(), &raw_key, &raw); });
        if (outcome == OPKEEP_OUTCOME_ERROR) {
            detail::raise();
        }
        return raw.id != 0 ? std::optional<hit>(hit(raw)) : std::nullopt;
    }

    // The files, or a ticket to make them. Waits while another caller makes them.
    claim get_or_begin(const key &key, const request &conditions = {}) const {
        const opkeep_request raw = raw_request(conditions);
        opkeep_hit found{};
        opkeep_ticket begun{};
        claim result;
        result.outcome = key.with(
            [&](const opkeep_key &raw_key) { return opkeep_get_or_begin(handle(), &raw_key, &raw, &found, &begun); });
        result.hit = hit(found);
        result.ticket = ticket(begun);
        if (result.outcome == OPKEEP_OUTCOME_ERROR) {
            detail::raise();
        }
        if (result.outcome != OPKEEP_OUTCOME_HIT && result.outcome != OPKEEP_OUTCOME_BEGIN) {
            result.reason = opkeep_last_message();
        }
        return result;
    }

    // The files of many keys, or at most `max_tickets` tickets to make them, in the order of the keys. Those that the store does not
    // have are requested from a remote cache in one call. Does not wait for other callers: where the outcome is PENDING, request the
    // files with get_or_begin when the tickets have ended.
    std::vector<claim> get_or_begin_many(const std::vector<key> &keys, std::size_t max_tickets,
                                         const request &conditions = {}) const {
        std::vector<key::for_c> made;
        made.reserve(keys.size());
        std::vector<const opkeep_key *> raw_keys;
        for (const key &one : keys) {
            made.push_back(one.raw());
            raw_keys.push_back(&made.back().key);
        }
        const opkeep_request raw = raw_request(conditions);
        std::vector<opkeep_answer> answers(keys.size());
        detail::check(
            opkeep_get_or_begin_many(handle(), raw_keys.data(), raw_keys.size(), max_tickets, &raw, answers.data()));
        std::vector<claim> claims(answers.size());
        for (std::size_t index = 0; index < answers.size(); ++index) {
            claims[index].outcome = answers[index].outcome;
            claims[index].hit = hit(answers[index].hit);
            claims[index].ticket = ticket(answers[index].ticket);
        }
        return claims;
    }

    // The files; `build` makes them as `new_files` if they are not there, while other callers wait. If it throws, one of
    // them builds. Files that cannot be stored, since the store cannot be written or by their names, number or sizes, are
    // returned all the same, with the reason in `not_kept()`; with rules, only if they were validated. Throws if the kernel is
    // not valid, and if the wait ends without files: the code is HOLDER_FAILED, TIMED_OUT or CANCELLED.
    template <class Build>
    files get_or_build(const key &key, Build &&build, const request &conditions = {}) const {
        claim claim = get_or_begin(key, conditions);
        if (claim.hit) {
            return files(std::move(claim.hit));
        }
        if (!claim.ticket) {
            throw error(opkeep_last_code(), claim.reason);
        }
        new_files made = std::forward<Build>(build)();
        if (made.rules.empty()) {
            made.rules = conditions.rules;
        }
        std::string not_kept;
        try {
            claim.ticket.publish(made);
        } catch (const error &failure) {
            // With rules, a group that is refused has a kernel that was not validated.
            const bool is_refused = failure.code() == OPKEEP_CODE_GROUP || failure.code() == OPKEEP_CODE_NAME;
            if (failure.code() != OPKEEP_CODE_STORE && !(is_refused && made.rules.empty())) {
                throw;
            }
            not_kept = failure.what();
        }
        return files(std::move(made), std::move(not_kept));
    }

    // Publishes files that were made without a request, in place of those that are there.
    bool put(const key &key, const new_files &made) const {
        int written = 0;
        key.with([&](const opkeep_key &raw_key) {
            made.with([&](const opkeep_group &group) {
                detail::check(opkeep_put(handle(), &raw_key, &group, &written));
            });
        });
        return written != 0;
    }

private:
    static opkeep_request raw_request(const request &conditions) {
        opkeep_request raw{};
        raw.size = sizeof raw;
        raw.timeout_ms = milliseconds(conditions.timeout);
        raw.stale_after_ms = milliseconds(conditions.stale_after);
        raw.hold_limit_ms = milliseconds(conditions.hold_limit);
        raw.cancel = conditions.cancel != nullptr ? conditions.cancel->handle() : opkeep_cancel{};
        raw.rules = detail::optional(conditions.rules);
        raw.flags = (conditions.wait ? 0 : OPKEEP_NO_WAIT) | (conditions.stays_here ? OPKEEP_STAYS_HERE : 0);
        return raw;
    }

    static std::uint64_t milliseconds(std::chrono::milliseconds time) {
        return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
    }
};

// A problem that failed no call.
struct warning {
    opkeep_warning_kind kind;
    std::string text;
    std::uint64_t dropped;
};

// The settings of a remote cache and of keys. Empty texts are unset. opkeep.h states each.
struct remote_options {
    std::string remote;
    std::string remote_mode;
    std::string remote_namespace;
    std::string sign_key;
    std::string trusted_keys;
    std::string host_key_file;
    std::string environment;
    std::chrono::milliseconds close_limit{0};
};

// A cache of compiled kernels.
class cache : public detail::owner<opkeep_cache, opkeep_close> {
public:
    cache(const std::string &directory, const std::string &framework, opkeep_mode mode = OPKEEP_MODE_ENABLE,
          std::uint64_t max_megabytes = 0)
        : owner(opened(directory, framework, mode, max_megabytes, {})) {}

    // The same with a remote cache, which hosts share.
    cache(const std::string &directory, const std::string &framework, const remote_options &remote,
          opkeep_mode mode = OPKEEP_MODE_ENABLE, std::uint64_t max_megabytes = 0)
        : owner(opened(directory, framework, mode, max_megabytes, remote)) {}

    // Waits until what was published is in the remote cache. Returns the number of groups that are not there by then. The destructor
    // waits as well.
    std::size_t finish_uploads(std::chrono::milliseconds timeout) const {
        std::size_t left = 0;
        const auto limit = timeout.count() > 0 ? static_cast<std::uint64_t>(timeout.count()) : 0;
        detail::check(opkeep_finish_uploads(handle(), limit, &left));
        return left;
    }

    // The files for one target, such as `cuda-sm_90`.
    opkeep::target target(const std::string &name) const {
        opkeep_target raw{};
        detail::check(opkeep_target_open(handle(), detail::text(name), &raw));
        return opkeep::target(raw);
    }

    // Fetches the oldest warning.
    std::optional<warning> next_warning() const {
        opkeep_warning raw{};
        const opkeep_code code = opkeep_next_warning(handle(), &raw);
        if (code == OPKEEP_CODE_NOT_FOUND) {
            return std::nullopt;
        }
        detail::check(code);
        return warning{raw.kind, raw.text, raw.dropped};
    }

private:
    static opkeep_cache opened(const std::string &directory, const std::string &framework, opkeep_mode mode,
                               std::uint64_t max_megabytes, const remote_options &remote) {
        opkeep_options options{};
        options.size = sizeof options;
        options.directory = detail::optional(directory);
        options.framework = detail::text(framework);
        options.max_megabytes = max_megabytes;
        options.mode = mode;
        options.remote = detail::optional(remote.remote);
        options.remote_mode = detail::optional(remote.remote_mode);
        options.remote_namespace = detail::optional(remote.remote_namespace);
        options.sign_key = detail::optional(remote.sign_key);
        options.trusted_keys = detail::optional(remote.trusted_keys);
        options.host_key_file = detail::optional(remote.host_key_file);
        options.environment = detail::optional(remote.environment);
        const auto limit = remote.close_limit.count();
        options.close_limit_ms = limit > 0 ? static_cast<std::uint64_t>(limit) : 0;
        opkeep_cache raw{};
        detail::check(opkeep_open(&options, &raw));
        return raw;
    }
};

// The rules for kernels of a format and an architecture, as JSON, under the name that the target has in the store.
inline std::string rules(opkeep_format format, const std::string &architecture, const std::string &target) {
    const char *text = nullptr;
    detail::check(opkeep_rules(format, detail::text(architecture), detail::text(target), &text));
    return text;
}

// A finding of a validation. Only errors make a kernel invalid.
struct finding {
    opkeep_severity severity;
    std::string code;
    std::string text;
};

// The findings for a kernel in memory. Without rules, those of the built-in target.
inline std::vector<finding> verify(const std::string &target, std::string_view object, std::string_view metadata = {},
                                   const std::string &rules = {}) {
    opkeep_pair pair{};
    pair.size = sizeof pair;
    pair.target = detail::text(target);
    pair.rules = detail::optional(rules);
    pair.object = object.data();
    pair.object_size = object.size();
    pair.metadata = metadata.data();
    pair.metadata_size = metadata.size();
    opkeep_report raw{};
    detail::check(opkeep_verify(&pair, &raw));
    const detail::owner<opkeep_report, opkeep_report_release> report(raw);
    std::size_t count = 0;
    detail::check(opkeep_report_counts(raw, &count, nullptr));
    std::vector<finding> findings;
    for (std::size_t index = 0; index < count; ++index) {
        opkeep_finding found{};
        detail::check(opkeep_report_finding(raw, index, &found));
        findings.push_back({found.severity, found.code, found.text});
    }
    return findings;
}

} // namespace opkeep
