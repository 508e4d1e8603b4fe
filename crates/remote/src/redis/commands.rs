//! The requests of each call, and what their answers mean. An answer that a command cannot have means nothing: it is invalid.

use std::time::Duration;

use opkeep_cache::{ClaimAnswer, EngineSpace, LeaseValue, PutAnswer};

use super::error::Failure;
use super::wire::{Reply, write_request};

/// Creates keys with the value `ARGV[1]`, in order, until `ARGV[3]` are created. Answers for each with 1 (created), 0 (not tried)
/// or the start of its value. With `ARGV[4]`, a key with this token counts as created: the request is sent again, after a connection that
/// ended without an answer.
const CLAIM: &str = "\
local limit, granted, answers = tonumber(ARGV[3]), 0, {}
for i, key in ipairs(KEYS) do
  answers[i] = 0
  if granted < limit then
    if redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2]) then
      answers[i] = 1
    else
      local value = redis.pcall('GET', key)
      if type(value) ~= 'string' then value = '' end
      answers[i] = value:sub(1, 64)
      if ARGV[4] == '1' and value:sub(1, 32) == ARGV[1]:sub(1, 32) then answers[i] = 1 end
    end
    if answers[i] == 1 then granted = granted + 1 end
  end
end
return answers";

/// Replaces the value of each key whose token is that of `ARGV[1]`. Answers for each with 1 or 0.
const RENEW: &str = "\
local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  answers[i] = 0
  if type(value) == 'string' and value:sub(1, 32) == ARGV[1]:sub(1, 32) then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    answers[i] = 1
  end
end
return answers";

/// Deletes each key whose token is `ARGV[1]`. Answers with 1.
const RELEASE: &str = "\
for _, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'string' and value:sub(1, 32) == ARGV[1] then redis.call('DEL', key) end
end
return 1";

/// Adds `ARGV[1]` to a counter that expires. Answers with 1: a script's integers are no larger than 2^53.
const ADVANCE: &str = "\
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

/// The maximum length of a value in the answers of [`CLAIM`].
const LONGEST_VALUE: usize = 64;

/// The longest time to live: the server adds it to its time in milliseconds.
const LONGEST_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

pub(super) fn claim(
    keys: &[Vec<u8>],
    value: &LeaseValue,
    keep_for: Duration,
    limit: usize,
    again: bool,
) -> Vec<u8> {
    let again = if again { "1" } else { "0" };
    script(CLAIM, keys, &[&value.to_string(), &milliseconds(keep_for), &limit.to_string(), again])
}

pub(super) fn renew(keys: &[Vec<u8>], value: &LeaseValue, keep_for: Duration) -> Vec<u8> {
    script(RENEW, keys, &[&value.to_string(), &milliseconds(keep_for)])
}

pub(super) fn release(keys: &[Vec<u8>], token: &str) -> Vec<u8> {
    script(RELEASE, keys, &[token])
}

pub(super) fn advance(key: Vec<u8>, by: u64, keep_for: Duration) -> Vec<u8> {
    let by = i64::try_from(by).unwrap_or(i64::MAX);
    script(ADVANCE, &[key], &[&by.to_string(), &milliseconds(keep_for)])
}

/// Returns a request that the server runs as one step. The script is sent each time, some hundred bytes: by its digest, each
/// first request to a server would need a second one.
fn script(text: &str, keys: &[Vec<u8>], arguments: &[&str]) -> Vec<u8> {
    let count = keys.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"EVAL", text.as_bytes(), count.as_bytes()];
    words.extend(keys.iter().map(Vec::as_slice));
    words.extend(arguments.iter().map(|argument| argument.as_bytes()));
    let mut bytes = Vec::new();
    write_request(&mut bytes, &words);
    bytes
}

/// The server refuses 0.
fn milliseconds(time: Duration) -> String {
    time.min(LONGEST_LIFE).as_millis().max(1).to_string()
}

/// The answer to the claim of one lease after `granted` of at most `limit` were granted.
pub(super) fn claim_answer(reply: Reply, granted: usize, limit: usize) -> Result<ClaimAnswer, Failure> {
    let is_tried = granted < limit;
    match reply {
        Reply::Integer(1) if is_tried => Ok(ClaimAnswer::Granted),
        Reply::Integer(0) if !is_tried => Ok(ClaimAnswer::NotTried),
        Reply::String(value) if is_tried && value.len() <= LONGEST_VALUE => {
            Ok(ClaimAnswer::Held(LeaseValue::decode(&value)))
        }
        other if is_tried => Err(unexpected(other, "1, or the start of a lease")),
        other => Err(unexpected(other, "0, since enough leases were granted")),
    }
}

pub(super) fn was_changed(reply: Reply) -> Result<bool, Failure> {
    match reply {
        Reply::Integer(1) => Ok(true),
        Reply::Integer(0) => Ok(false),
        other => Err(unexpected(other, "1 or 0")),
    }
}

/// The answer of a script that cannot do anything else than what was requested.
pub(super) fn done(reply: Reply) -> Result<(), Failure> {
    match reply {
        Reply::Integer(1) => Ok(()),
        other => Err(unexpected(other, "1")),
    }
}

/// The answer to `SET`; it creates only if it has `NX`.
pub(super) fn put_answer(reply: Reply, creates_only: bool) -> Result<PutAnswer, Failure> {
    match reply {
        Reply::Status(text) if text == b"OK" => Ok(PutAnswer::Stored),
        Reply::Nil if creates_only => Ok(PutAnswer::Existed),
        other if creates_only => Err(unexpected(other, "the status `OK`, or nothing")),
        other => Err(unexpected(other, "the status `OK`")),
    }
}

/// The answer to the request to delete `keys` keys.
pub(super) fn deleted(reply: Reply, keys: usize) -> Result<(), Failure> {
    match reply {
        Reply::Integer(count) if usize::try_from(count).is_ok_and(|count| count <= keys) => Ok(()),
        other => Err(unexpected(other, "the number of keys that were deleted")),
    }
}

/// The value of a counter.
pub(super) fn count(reply: Reply) -> Result<u64, Failure> {
    match reply {
        Reply::Nil => Ok(0),
        Reply::String(digits) => {
            number(&digits).ok_or_else(|| Failure::Invalid("a counter is no number".to_owned()))
        }
        other => Err(unexpected(other, "a counter")),
    }
}

/// Parses digits, and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let digits = Some(digits).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    str::from_utf8(digits).ok()?.parse().ok()
}

fn unexpected(reply: Reply, expected: &'static str) -> Failure {
    match reply {
        Reply::Error(error) => Failure::Server(error),
        other => Failure::invalid(other.kind(), expected),
    }
}

/// A part of the keys, and the cursor of the next part; 0 after the last one.
pub(super) fn scanned(reply: Reply) -> Result<(u64, Vec<Vec<u8>>), Failure> {
    let expected = "a cursor and an array of keys";
    let parts = match reply {
        Reply::Array(parts) => parts,
        other => return Err(unexpected(other, expected)),
    };
    let Ok([Reply::String(cursor), Reply::Array(keys)]) = <[Reply; 2]>::try_from(parts) else {
        return Err(Failure::invalid("another array", expected));
    };
    let cursor = number(&cursor).ok_or_else(|| Failure::Invalid("a cursor is no number".to_owned()))?;
    let keys = keys.into_iter().map(|key| match key {
        Reply::String(key) => Ok(key),
        other => Err(unexpected(other, "a key")),
    });
    Ok((cursor, keys.collect::<Result<_, _>>()?))
}

/// The answer to `INFO memory`. These credentials may not see it, or the server has no such command.
pub(super) fn space(reply: Reply) -> Result<Option<EngineSpace>, Failure> {
    match reply {
        Reply::String(info) => memory_limit(&info)
            .ok_or_else(|| Failure::Invalid("the server does not state its limit of memory".to_owned())),
        other => Err(unexpected(other, "a text")),
    }
}

/// The limit in a text of `INFO memory`, which may be that there is none. `None`: the text does not say.
fn memory_limit(info: &[u8]) -> Option<Option<EngineSpace>> {
    let info = String::from_utf8_lossy(info);
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = |name| field(name).and_then(|digits| digits.trim().parse().ok());
    let limit = number("maxmemory")?;
    if limit == 0 {
        return Some(None);
    }
    let mut space = EngineSpace::new(number("used_memory")?, limit);
    // Kernels have no time to live, so `volatile-lru` and the like evict leases only.
    space.evicts = field("maxmemory_policy").is_some_and(|policy| policy.starts_with("allkeys-"));
    Some(Some(space))
}

/// Returns a pattern of `SCAN` that the texts that begin with `prefix` match, and no others.
pub(super) fn pattern(prefix: &str) -> String {
    let mut pattern = String::new();
    for char in prefix.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern.push('*');
    pattern
}

/// The time since a key was used and its size, from the answers to `OBJECT IDLETIME` and `MEMORY USAGE`. `None`: the key is gone.
pub(super) fn listed(idle: Reply, size: Reply) -> Result<Option<(Option<Duration>, u64)>, Failure> {
    let unsigned = |number: i64, what| {
        u64::try_from(number).map_err(|_| Failure::Invalid(format!("{what} is negative")))
    };
    let bytes = match size {
        Reply::Integer(bytes) => unsigned(bytes, "a size")?,
        Reply::Nil => return Ok(None),
        other => return Err(unexpected(other, "a size")),
    };
    let idle = match idle {
        Reply::Integer(seconds) => Some(Duration::from_secs(unsigned(seconds, "a time")?)),
        // A server whose `maxmemory-policy` counts uses knows no times.
        Reply::Nil | Reply::Error(_) => None,
        other => return Err(unexpected(other, "a time")),
    };
    Ok(Some((idle, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_of_a_server_with_a_limit() {
        let of = |used: u64, limit: u64, policy: &str| {
            let rest = "used_memory_human:1K\r\nmaxmemory_human:2K";
            let info = format!(
                "# Memory\r\nused_memory:{used}\r\n{rest}\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
            );
            memory_limit(info.as_bytes())
                .unwrap()
                .map(|space| (space.used, space.limit, space.evicts, space.is_nearly_full()))
        };
        assert_eq!(of(89, 100, "noeviction"), Some((89, 100, false, false)));
        assert_eq!(of(95, 100, "noeviction"), Some((95, 100, false, true)));
        assert_eq!(of(95, 100, "volatile-lru"), Some((95, 100, false, true)));
        assert_eq!(of(100, 100, "allkeys-lru"), Some((100, 100, true, false)));
        assert_eq!(of(95, 0, "noeviction"), None);
        assert_eq!(memory_limit(b"# Memory\r\n"), None);
    }
}
