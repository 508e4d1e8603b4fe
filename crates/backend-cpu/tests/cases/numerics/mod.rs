//! Every elementwise operator of the table, by each available compiler, against an independent reference.

mod inputs;
mod reference;
mod several;
mod special;

use std::collections::BTreeSet;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use opkeep_backend_cpu::CpuBackend;
use opkeep_descriptor::{Attr, AttrValue};
use opkeep_ops::OpSpec;

use reference::{Case, Reference, cases};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("references_hold_at_known_values", || {
            special::check();
            Ok(())
        }),
        Trial::test("every_operator_and_attribute_has_a_case", complete),
    ];
    for compiler in ["gcc", "clang"] {
        let there = crate::common::program(compiler).is_some();
        let backend = Arc::new(crate::common::strict_with(compiler));
        for spec in crate::common::on_floats() {
            let backend = Arc::clone(&backend);
            let trial = Trial::test(format!("{compiler}::{}", spec.op_type), move || {
                cases()
                    .iter()
                    .filter(|case| case.op_type == spec.op_type)
                    .try_for_each(|case| check(&backend, spec, case))
            });
            trials.push(trial.with_ignored_flag(!there));
        }
        let several = several::trials(compiler, &backend).into_iter();
        trials.extend(several.map(|trial| trial.with_ignored_flag(!there)));
    }
    trials
}

/// A new operator or attribute needs a reference.
fn complete() -> Result<(), Failed> {
    let cases = cases();
    let referenced: BTreeSet<_> = cases.iter().map(|case| case.op_type).collect();
    let table: BTreeSet<_> = crate::common::on_floats().map(|spec| spec.op_type).collect();
    assert_eq!(referenced, table);
    for spec in crate::common::on_floats() {
        for attr in spec.attrs {
            let other =
                |given: &Attr| given.name == attr.name && Some(&given.value) != default(attr).as_ref();
            let tried = cases.iter().filter(|case| case.op_type == spec.op_type);
            assert!(
                tried.flat_map(|case| &case.attrs).any(other),
                "`{}` is tried with the default of `{}` only",
                spec.op_type,
                attr.name
            );
        }
    }
    Ok(())
}

fn default(attr: &opkeep_ops::AttrSpec) -> Option<AttrValue> {
    attr.default_value()
}

fn check(backend: &CpuBackend, spec: &OpSpec, case: &Case) -> Result<(), Failed> {
    let (left, right) = match spec.inputs.len() {
        1 => (inputs::unary(), Vec::new()),
        _ => inputs::binary(),
    };
    let shape = [left.len() as i64];
    let (shapes, values) = match right.is_empty() {
        true => (vec![&shape[..]], vec![&left[..]]),
        false => (vec![&shape[..], &shape[..]], vec![&left[..], &right[..]]),
    };
    let job = crate::common::job(spec.op_type, &shapes, &case.attrs);
    let found = crate::common::launch(&*crate::common::kernel(backend, &job), &values, 1);
    let right = if right.is_empty() { vec![0.0; left.len()] } else { right };

    let mut wrong = Vec::new();
    for (at, (x, b)) in left.iter().zip(&right).enumerate() {
        let (expected, found, fits) = match &case.reference {
            Reference::Exact(f) => {
                let (expected, found) = (f(*x, *b), crate::common::floats(&found[at * 4..at * 4 + 4])[0]);
                let fits = expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan());
                (format!("{expected:e}"), format!("{found:e}"), fits)
            }
            Reference::Near(ulps, off, f) => {
                let expected = f(f64::from(*x), f64::from(*b));
                let found = crate::common::floats(&found[at * 4..at * 4 + 4])[0];
                (format!("{expected:e}"), format!("{found:e}"), near(expected, found, *ulps, *off))
            }
            Reference::Is(f) => {
                let (expected, found) = (u8::from(f(*x, *b)), found[at]);
                (expected.to_string(), found.to_string(), expected == found)
            }
        };
        if !fits {
            wrong.push(format!("at {x:e}, {b:e}: expected {expected}, found {found}"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let attrs: Vec<_> = case.attrs.iter().map(|attr| (&attr.name, &attr.value)).collect();
    let (count, of) = (wrong.len(), left.len());
    wrong.truncate(12);
    Err(format!("{} {attrs:?}: {count} of {of} wrong\n{}", spec.op_type, wrong.join("\n")).into())
}

/// Whether `found` is `expected` up to so many units of float32 in the last place, or up to `off`.
fn near(expected: f64, found: f32, ulps: f64, off: f64) -> bool {
    let rounded = expected as f32;
    if rounded.is_nan() || found.is_nan() {
        return rounded.is_nan() && found.is_nan();
    }
    if rounded == found || (f64::from(found) - expected).abs() <= off {
        return true;
    }
    let largest = f64::from(f32::MAX);
    if rounded.is_infinite() || found.is_infinite() {
        // The result may be on either side of the largest float if it is near.
        let edge = |value: f64| (value.abs() / largest - 1.0).abs() < ulps * 1.2e-7;
        return ulps > 0.0
            && (edge(expected) || edge(f64::from(found)))
            && expected.is_sign_positive() == found.is_sign_positive();
    }
    let unit = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
    (f64::from(found) - expected).abs() <= ulps * unit.min(largest)
}
