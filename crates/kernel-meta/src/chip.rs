//! The comparison of the chip that a kernel was built for with the chip that its descriptor names.

use opkeep_cann_meta::targets;

/// Returns whether a kernel that was built for the target `built` is for the target `named` in its descriptor. An empty
/// `named` accepts any target. Two hosts are the same if they have the same machine.
pub fn is_same_chip(named: &str, built: &str) -> bool {
    let host = |target: &str| {
        let is_host = target == "cpu" || target.starts_with("cpu-");
        targets::named(target).filter(|_| is_host)?.elf().map(|rules| rules.machines.clone())
    };
    let is_same_host = || host(named).is_some_and(|machines| host(built) == Some(machines));
    named.is_empty() || named.eq_ignore_ascii_case(built) || is_same_host()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_the_same_by_name_and_hosts_by_machine() {
        for (named, built) in [
            ("", "sm_90"),
            ("ascend910b1", "Ascend910B1"),
            ("cpu", "cpu-native"),
            ("cpu-x86_64", "cpu-x86_64-v3"),
        ] {
            assert!(is_same_chip(named, built), "{named} {built}");
        }
        for (named, built) in [
            ("Ascend910B1", "Ascend910B2"),
            ("cpu-x86_64", "cpu-aarch64"),
            ("cpu", "aicpu"),
            ("cpu-riscv64", "cpu-mips64"),
            ("sm_90", "cpu"),
        ] {
            assert!(!is_same_chip(named, built), "{named} {built}");
        }
    }
}
