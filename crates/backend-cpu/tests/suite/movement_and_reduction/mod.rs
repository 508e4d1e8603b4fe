//! Operators that move or combine elements, each against a reference that is written from its definition.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail the test that calls them")]

mod broken;
mod case;
mod hostile;
mod movement;
mod reduction;

use std::sync::Mutex;

use crate::common::strict;
use case::Case;

/// Runs all of them, by one compiler after the other, and shows each that is wrong.
fn all(cases: Vec<Case>) {
    let wrong = Mutex::new(Vec::new());
    let numbered: Vec<(usize, &Case)> = cases.iter().enumerate().collect();
    crate::common::each(&numbered, |(at, case)| {
        if let Err(problem) = case.run(&strict()[at % strict().len()]) {
            wrong.lock().unwrap().push(problem);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn transposes_are_where_the_order_says() {
    all(movement::transposes());
}

#[test]
fn pieces_lie_side_by_side() {
    all(movement::concats_and_splits());
}

#[test]
fn items_are_those_that_the_indices_name() {
    all(movement::gathers());
}

#[test]
fn slices_are_pythons() {
    all(movement::slices());
}

#[test]
fn edges_are_filled_as_the_mode_says() {
    all(movement::pads());
}

#[test]
fn repeated_elements_are_equal() {
    all(movement::repeats());
}

#[test]
fn choices_follow_the_condition() {
    all(movement::selects());
}

#[test]
fn reductions_are_their_definitions() {
    all(reduction::reductions());
    all(reduction::odd_values());
    all(reduction::whole_numbers());
}

#[test]
fn sums_of_a_million_are_exact_to_a_float() {
    all(reduction::long_sums());
}

#[test]
fn shares_add_up_to_one() {
    all(reduction::softmaxes());
}

#[test]
fn normalised_rows_are_their_definitions() {
    all(reduction::layer_norms());
    all(reduction::local_responses());
}
