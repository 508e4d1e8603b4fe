//! The functions that implement IR types.

/// The function that implements `op_type`, by the vendor's rule and its exceptions.
///
/// The rule is that of CANN's graph engine (`tbe_op_info.cc`): an underscore before each capital that begins a word, no
/// underscore between digits and the capitals that follow them, and all in lower case. The exceptions are those of the
/// operator information library of Ascend910B (CANN 8.1).
///
/// ```
/// use opkeep_ops::func_name;
///
/// assert_eq!(func_name("RealDiv"), "real_div");
/// assert_eq!(func_name("Conv2D"), "conv2d");
/// assert_eq!(func_name("LRN"), "lrn"); // an exception: the rule gives `l_rn`
/// ```
pub fn func_name(op_type: &str) -> String {
    match EXCEPTIONS.iter().find(|(exception, _)| *exception == op_type) {
        Some((_, func)) => (*func).to_owned(),
        None => by_rule(op_type),
    }
}

const EXCEPTIONS: [(&str, &str); 22] = [
    ("AddV2", "add"),
    ("AvgPool3D", "avg_pool3_d"),
    ("BNInfer", "bn_infer"),
    ("BNInference", "bninference"),
    ("BNLL", "bnll"),
    ("BatchMatMul", "batch_matmul"),
    ("BatchMatMulV2", "batch_matmul_v2"),
    ("ConcatV2D", "concat_v2_d"),
    ("GatherV2D", "gather_v2_d"),
    ("IFMR", "ifmr"),
    ("KLDiv", "kl_div"),
    ("LRN", "lrn"),
    ("MVN", "mvn"),
    ("MatMul", "mat_mul"),
    ("MatMulV2", "mat_mul"),
    ("NMSWithMask", "nms_with_mask"),
    ("PRelu", "prelu"),
    ("PadV3D", "pad_v3_d"),
    ("ROIAlign", "roi_align"),
    ("SGD", "sgd"),
    ("SplitVD", "split_v_d"),
    ("TopKD", "top_k_d"),
];

fn by_rule(op_type: &str) -> String {
    let letters: Vec<char> = op_type.chars().collect();
    let mut name = String::with_capacity(letters.len() + 4);
    let mut glued = false;
    for (at, letter) in letters.iter().enumerate() {
        if letter.is_ascii_lowercase() {
            glued = false;
        } else if letter.is_ascii_digit() {
            glued = true;
        } else if letter.is_ascii_uppercase() && at > 0 {
            let word_begins = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
            if !glued || word_begins {
                name.push('_');
            }
            glued = true;
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors from the vendor's rule and its operator information library.
    #[test]
    fn names_are_the_vendors() {
        for (op_type, func) in [
            ("Square", "square"),
            ("MaxPool3D", "max_pool3d"),
            ("MaxPoolV3", "max_pool_v3"),
            ("Conv2DTranspose", "conv2d_transpose"),
            ("AccumulateNV2", "accumulate_nv2"),
            ("ResizeNearestNeighborV2", "resize_nearest_neighbor_v2"),
            ("SoftmaxV2", "softmax_v2"),
            ("ConcatD", "concat_d"),
            ("MatMulV2", "mat_mul"),
            ("AvgPool3D", "avg_pool3_d"),
            ("GatherV2D", "gather_v2_d"),
        ] {
            assert_eq!(func_name(op_type), func);
        }
        // The exceptions are needed: the rule alone gives another name.
        assert_eq!(by_rule("LRN"), "l_rn");
        assert_eq!(by_rule("BNInfer"), "b_n_infer");
        assert_eq!(by_rule("GatherV2D"), "gather_v2d");
    }
}
