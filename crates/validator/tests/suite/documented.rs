//! The document of the codes.

#[path = "../../examples/findings.rs"]
#[allow(dead_code, reason = "an example's `main` is not called here")]
mod findings;

#[test]
fn findings_md_has_the_table_of_codes() {
    let documented = include_str!("../../FINDINGS.md");
    assert!(documented.ends_with(&findings::table()), "`cargo xtask findings --update` writes FINDINGS.md");
}
