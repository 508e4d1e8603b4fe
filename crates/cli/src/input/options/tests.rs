use super::*;

#[test]
fn the_nearest_name_is_found_and_no_far_one() {
    let known = ["deterministic", "impl_mode", "impl_mode_list", "op_debug_level", "coreNum"];
    for (name, expected) in [
        ("impl_mod", Some("impl_mode")),
        ("impl-mode", Some("impl_mode")),
        ("determinstic", Some("deterministic")),
        ("Deterministic", Some("deterministic")),
        ("op_debug_lvel", Some("op_debug_level")),
        ("corenum", Some("coreNum")),
        ("impl_mode_lsit", Some("impl_mode_list")),
        ("opt", None),
        ("something_else", None),
        ("\u{202e}", None),
    ] {
        assert_eq!(nearest_name(name, &known), expected, "{name}");
    }
    assert_eq!(nearest_name("x", &[]), None);
}
