//! Operators that compute element by element, and reductions.

use opkeep_ops::{Call, Reduce, Rule, TensorType, dtype_bytes};

use super::operand::{Operand, broadcast, dense, places};
use crate::number::Numbers;

/// The elements of a pointwise operator's output.
pub(super) fn compute(call: &Call<'_>, operands: &[Operand], made: &TensorType) -> Option<Vec<u8>> {
    let rank = made.shape.len();
    let places = |operand: &Operand| places(&made.shape, &broadcast(&operand.shape, rank), 0);
    let numbers = |operand: &Operand| Numbers::decode(&operand.dtype, &operand.bytes);
    match (call.spec().rule, operands) {
        (Rule::Select, [condition, yes, no]) => {
            let size = dtype_bytes(&made.dtype)?;
            let mut chosen = Vec::new();
            for ((condition_at, yes_at), no_at) in
                places(condition).into_iter().zip(places(yes)).zip(places(no))
            {
                let (from, at) = if condition.bytes[condition_at] != 0 { (yes, yes_at) } else { (no, no_at) };
                chosen.extend_from_slice(from.bytes.get(at * size..(at + 1) * size)?);
            }
            Some(chosen)
        }
        (Rule::Cast, [x]) => numbers(x)?.encode(&made.dtype),
        (Rule::Accumulate, [first, rest @ ..]) => {
            let mut sum = spread(&numbers(first)?, &places(first));
            for operand in rest {
                sum = binary("Add", &sum, &spread(&numbers(operand)?, &places(operand)))?;
                // Each sum is rounded separately, as in a kernel.
                sum = Numbers::decode(&made.dtype, &sum.encode(&made.dtype)?)?;
            }
            sum.encode(&made.dtype)
        }
        (_, [x]) => unary(call, &numbers(x)?)?.encode(&made.dtype),
        (_, [a, b]) => {
            let (a, b) = (spread(&numbers(a)?, &places(a)), spread(&numbers(b)?, &places(b)));
            binary(call.spec().op_type, &a, &b)?.encode(&made.dtype)
        }
        _ => None,
    }
}

/// The numbers at `places`.
fn spread(numbers: &Numbers, places: &[usize]) -> Numbers {
    match numbers {
        Numbers::Ints(ints) => Numbers::Ints(places.iter().map(|at| ints[*at]).collect()),
        Numbers::Floats(floats) => Numbers::Floats(places.iter().map(|at| floats[*at]).collect()),
    }
}

fn unary(call: &Call<'_>, x: &Numbers) -> Option<Numbers> {
    let scalar = || call.float("value").ok().map(f64::from);
    match x {
        Numbers::Ints(ints) => {
            let compute: fn(i64) -> i64 = match call.spec().op_type {
                "Abs" => i64::wrapping_abs,
                "LogicalNot" => |x| i64::from(x == 0),
                "Neg" => i64::wrapping_neg,
                "Sign" => i64::signum,
                _ => return None,
            };
            Some(Numbers::Ints(ints.iter().map(|int| compute(*int)).collect()))
        }
        Numbers::Floats(floats) => {
            let all = |compute: &dyn Fn(f64) -> f64| floats.iter().map(|float| compute(*float)).collect();
            Some(Numbers::Floats(match call.spec().op_type {
                "Abs" => all(&f64::abs),
                "Adds" => scalar().map(|value| all(&|x| x + value))?,
                "Ceil" => all(&f64::ceil),
                "Floor" => all(&f64::floor),
                "Muls" => scalar().map(|value| all(&|x| x * value))?,
                "Neg" => all(&|x: f64| -x),
                "Reciprocal" => all(&f64::recip),
                "Rint" => all(&f64::round_ties_even),
                "Sqrt" => all(&f64::sqrt),
                _ => return None,
            }))
        }
    }
}

fn binary(op_type: &str, a: &Numbers, b: &Numbers) -> Option<Numbers> {
    match (a, b) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let pairs = a.iter().zip(b);
            pairs.map(|(a, b)| of_ints(op_type, *a, *b)).collect::<Option<_>>().map(Numbers::Ints)
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let mut pairs = a.iter().zip(b).map(|(a, b)| (*a, *b));
            match comparison(op_type) {
                Some(holds) => {
                    let truth = |(a, b): (f64, f64)| i64::from(holds(a.partial_cmp(&b)));
                    Some(Numbers::Ints(pairs.map(truth).collect()))
                }
                None => {
                    let compute = of_floats(op_type)?;
                    Some(Numbers::Floats(pairs.by_ref().map(|(a, b)| compute(a, b)).collect()))
                }
            }
        }
        _ => None,
    }
}

/// The orders for which a comparison holds; there is no order if one of the numbers is NaN.
fn comparison(op_type: &str) -> Option<fn(Option<std::cmp::Ordering>) -> bool> {
    Some(match op_type {
        "Equal" => |order| order.is_some_and(|order| order.is_eq()),
        "Greater" => |order| order.is_some_and(|order| order.is_gt()),
        "GreaterEqual" => |order| order.is_some_and(|order| order.is_ge()),
        "Less" => |order| order.is_some_and(|order| order.is_lt()),
        "LessEqual" => |order| order.is_some_and(|order| order.is_le()),
        "NotEqual" => |order| !order.is_some_and(|order| order.is_eq()),
        _ => return None,
    })
}

/// `None` if there is no value, such as for a quotient by zero, which is left to run time.
fn of_ints(op_type: &str, a: i64, b: i64) -> Option<i64> {
    if let Some(holds) = comparison(op_type) {
        return Some(i64::from(holds(Some(a.cmp(&b)))));
    }
    Some(match op_type {
        "Add" => a.wrapping_add(b),
        "Sub" => a.wrapping_sub(b),
        "Mul" => a.wrapping_mul(b),
        // Quotients are truncated.
        "RealDiv" if b != 0 => a.wrapping_div(b),
        "Mod" if b != 0 => a.wrapping_rem(b),
        // The remainder has the divisor's sign.
        "FloorMod" if b != 0 => match a.wrapping_rem(b) {
            rest if rest != 0 && (rest < 0) != (b < 0) => rest + b,
            rest => rest,
        },
        "Maximum" => a.max(b),
        "Minimum" => a.min(b),
        "LogicalAnd" => i64::from(a != 0 && b != 0),
        "LogicalOr" => i64::from(a != 0 || b != 0),
        "LogicalXor" => i64::from((a != 0) != (b != 0)),
        _ => return None,
    })
}

fn of_floats(op_type: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match op_type {
        "Add" => |a, b| a + b,
        "Sub" => |a, b| a - b,
        "Mul" => |a, b| a * b,
        "RealDiv" => |a, b| a / b,
        "Mod" => |a, b| a % b,
        "Maximum" => |a, b| if a.is_nan() || a > b { a } else { b },
        "Minimum" => |a, b| if a.is_nan() || a < b { a } else { b },
        _ => return None,
    })
}

/// The elements of a reduction's output.
pub(super) fn reduce(call: &Call<'_>, x: &Operand, made: &TensorType) -> Option<Vec<u8>> {
    let (op_type, start) = match call.spec().op_type {
        "ReduceMax" => ("Maximum", None),
        "ReduceMin" => ("Minimum", None),
        "ReduceProd" => ("Mul", Some(1)),
        "ReduceSum" => ("Add", Some(0)),
        _ => return None,
    };
    let Reduce { axes, .. } = Reduce::of(call).ok()?;
    // The output with the reduced axes kept as single elements, along which the steps are 0.
    let kept: Vec<i64> =
        x.shape.iter().enumerate().map(|(at, dim)| if axes.contains(&at) { 1 } else { *dim }).collect();
    let mut steps = dense(&kept);
    axes.iter().for_each(|at| steps[*at] = 0);
    let slots = places(&x.shape, &steps, 0);
    let count = usize::try_from(crate::value::product(&made.shape)).ok()?;
    // Whole numbers wrap at the end as they would after each step.
    let results = match (Numbers::decode(&x.dtype, &x.bytes)?, x.dtype.as_str()) {
        (Numbers::Ints(ints), _) => {
            Numbers::Ints(joined(&ints, &slots, count, start, |a, b| of_ints(op_type, a, b))?)
        }
        (Numbers::Floats(floats), "float32") => {
            let join = of_floats(op_type)?;
            let start = start.map(|start| start as f64);
            Numbers::Floats(joined(&floats, &slots, count, start, |a, b| Some(f64::from(join(a, b) as f32)))?)
        }
        (Numbers::Floats(floats), "float64") => {
            let join = of_floats(op_type)?;
            let start = start.map(|start| start as f64);
            Numbers::Floats(joined(&floats, &slots, count, start, |a, b| Some(join(a, b)))?)
        }
        _ => return None,
    };
    results.encode(&made.dtype)
}

/// Elements that share a slot, combined in order; a slot without any has the value `start`.
fn joined<T: Copy>(
    elements: &[T],
    slots: &[usize],
    count: usize,
    start: Option<T>,
    join: impl Fn(T, T) -> Option<T>,
) -> Option<Vec<T>> {
    let mut results: Vec<Option<T>> = vec![None; count];
    for (element, slot) in elements.iter().zip(slots) {
        let result = results.get_mut(*slot)?;
        *result = Some(match *result {
            None => *element,
            Some(so_far) => join(so_far, *element)?,
        });
    }
    results.into_iter().map(|result| result.or(start)).collect()
}
