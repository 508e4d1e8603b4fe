//! Cases that random numbers do not reach: empty tensors, overflow, NaN.

use libtest_mimic::{Failed, Trial};
use opkeep_backend::{Backend, Support};
use opkeep_descriptor::Attr;
use opkeep_ops::{bool_attr, ints_attr, str_attr};

use crate::dense::case::{close, job};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("nothing_is_computed_of_nothing", nothing),
        Trial::test("a_tensor_that_is_too_large_is_refused", too_large),
        Trial::test("max_lets_nan_through", nan),
        Trial::test("means_are_those_of_onnx_runtime", means),
    ]
}

fn conv_attrs(strides: &[i64], pads: &[i64]) -> Vec<Attr> {
    vec![ints_attr("strides", strides), ints_attr("pads", pads), str_attr("data_format", "NCHW")]
}

fn pool_attrs(ksize: [i64; 2], strides: [i64; 2], pads: &[i64]) -> Vec<Attr> {
    let outer = |sizes: [i64; 2]| [1, 1, sizes[0], sizes[1]];
    vec![ints_attr("ksize", &outer(ksize)), ints_attr("strides", &outer(strides)), ints_attr("pads", pads)]
}

fn nothing() -> Result<(), Failed> {
    let jobs = [
        job("Conv2D", &[vec![0, 3, 8, 8], vec![4, 3, 3, 3]], conv_attrs(&[1; 4], &[0; 4])),
        job("Conv2D", &[vec![2, 3, 8, 8], vec![0, 3, 3, 3]], conv_attrs(&[1; 4], &[0; 4])),
        job("MatMulV2", &[vec![0, 3], vec![3, 5]], Vec::new()),
        job("BatchMatMulV2", &[vec![0, 4, 3], vec![0, 3, 5]], Vec::new()),
        job("MaxPoolV3", &[vec![3, 0, 8, 8]], pool_attrs([2, 2], [1, 1], &[0; 4])),
    ];
    for job in &jobs {
        let inputs: Vec<Vec<f32>> = job
            .data
            .iter()
            .flat_map(|data| data.outputs[0].iter())
            .map(|tensor| crate::common::numbers(tensor.shape.iter().product::<i64>() as usize, 5))
            .collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let kernel = crate::common::kernel(crate::common::backend(), job);
        assert!(crate::common::launch(&*kernel, &inputs, 2).is_empty());
    }
    Ok(())
}

fn too_large() -> Result<(), Failed> {
    let far = i64::MAX / 4;
    let jobs = [
        job("Conv2D", &[vec![1, 1, 1 << 21, 1 << 21], vec![1; 4]], conv_attrs(&[1; 4], &[0; 4])),
        job("Conv2D", &[vec![1, 1, 2, 2], vec![1; 4]], conv_attrs(&[1, 1, far, far], &[far, far, far, far])),
        job("Conv2D", &[vec![1 << 21, 0, 1, 2], vec![1 << 21, 0, 1, 1]], conv_attrs(&[1; 4], &[0; 4])),
        job(
            "Conv2D",
            &[vec![1, 0, 1 << 22, 1 << 22], vec![1, 0, 1, 1]],
            conv_attrs(&[1, 1, 1 << 21, 1 << 21], &[0; 4]),
        ),
        job("MatMulV2", &[vec![1 << 21, 1], vec![1, 1 << 21]], Vec::new()),
        job("MatMulV2", &[vec![1 << 21, 0], vec![0, 1 << 21]], Vec::new()),
        job("MaxPoolV3", &[vec![1 << 20, 1 << 21, 1, 2]], pool_attrs([1, 1], [1, 1], &[0; 4])),
        job("MaxPoolV3", &[vec![1, 1, 2, 2]], pool_attrs([far, far], [far, far], &[far, far, far, far])),
    ];
    let backend = crate::common::backend();
    for job in &jobs {
        let Support::No(reason) = backend.supports(job, &crate::common::spec(backend)) else {
            return Err(format!("not refused: {:?}", job.ops[0].inputs).into());
        };
        assert!(reason.to_string().contains("larger than any memory"), "{reason}");
    }
    Ok(())
}

fn nan() -> Result<(), Failed> {
    let job = job("MaxPoolV3", &[vec![1, 1, 2, 40]], pool_attrs([2, 3], [1, 1], &[0, 0, 1, 1]));
    let kernel = crate::common::kernel(crate::common::backend(), &job);
    for at in 0..80 {
        let mut x = crate::common::numbers(80, 3);
        x[at] = f32::NAN;
        let found = crate::common::floats(&crate::common::launch(&*kernel, &[&x], 1));
        for (column, value) in found.iter().enumerate() {
            assert_eq!(value.is_nan(), column.abs_diff(at % 40) <= 1, "{at} {column} {value}");
        }
    }
    let infinite = vec![f32::NEG_INFINITY; 80];
    let found = crate::common::floats(&crate::common::launch(&*kernel, &[&infinite], 1));
    assert!(found.iter().all(|value| *value == f32::NEG_INFINITY));
    Ok(())
}

/// The results of ONNX Runtime 1.31 for windows that reach beyond the padding, which it does not count.
fn means() -> Result<(), Failed> {
    let x: Vec<f32> = (0..28).map(|at| (at * 7 % 19) as f32 - 6.0).collect();
    let counted = [0.75, 2.75, 1.125, 2.166667, 4.0, 0.25, 1.222222, 2.0, 2.666667];
    let not_counted = [3.0, 3.666667, 1.5, 6.5, 4.0, 0.25, 5.5, 3.0, 4.0];
    for (exclusive, expected) in [(false, counted), (true, not_counted)] {
        let mut attrs = pool_attrs([4, 3], [3, 2], &[1, 1, 2, 0]);
        attrs.extend([bool_attr("exclusive", exclusive), bool_attr("ceil_mode", true)]);
        let job = job("AvgPoolV2", &[vec![1, 1, 7, 4]], attrs);
        let kernel = crate::common::kernel(crate::common::backend(), &job);
        close(&expected, &crate::common::floats(&crate::common::launch(&*kernel, &[&x], 1)))?;
    }
    Ok(())
}
