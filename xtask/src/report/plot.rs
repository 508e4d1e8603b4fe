//! Line plots as SVG: both axes are logarithmic.

use super::figures::{seconds, thousands};

/// A line and what it is called.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One set of axes.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) across: &'static str,
    pub(crate) lines: Vec<Line>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart by those who see few colours, too.
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// Panels side by side.
pub(crate) fn svg(panels: &[Panel]) -> String {
    let width = WIDTH * panels.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        text += &format!("<g transform=\"translate({},0)\">\n{}</g>\n", WIDTH * at as f64, panel.draw());
    }
    text + "</svg>\n"
}

/// A logarithmic axis: what it begins and ends with, and where those are.
struct Axis {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
}

impl Axis {
    /// Holds all `values`, and a little more.
    fn of(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        let (least, most) =
            (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some(Self { from: least / 1.25, to: most * 1.25, begin, end })
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        self.begin + share * (self.end - self.begin)
    }

    /// 1, 2 and 5 times each power of ten that is on it; without 2 and 5, or with powers left out, where those are many.
    fn marks(&self) -> Vec<f64> {
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let of = |steps: &[f64]| -> Vec<f64> {
            let all = powers.clone().flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            all.filter(|mark| (self.from..=self.to).contains(mark)).collect()
        };
        let fine = of(&[1.0, 2.0, 5.0]);
        if fine.len() <= 8 { fine } else { of(&[1.0]) }
    }
}

impl Panel {
    fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let across = Axis::of(points().map(|(x, _)| *x), LEFT, WIDTH - RIGHT);
        let up = Axis::of(points().map(|(_, y)| *y), HEIGHT - BOTTOM, TOP);
        let mut text = label(WIDTH / 2.0, 18.0, "middle", self.title);
        let (Some(across), Some(up)) = (across, up) else {
            return text + &label(WIDTH / 2.0, HEIGHT / 2.0, "middle", "not measured");
        };
        for mark in up.marks() {
            let y = up.at(mark);
            text += &rule(LEFT, y, WIDTH - RIGHT, y);
            text += &label(LEFT - 6.0, y + 4.0, "end", &seconds(mark).replace(".0 ", " "));
        }
        for mark in across.marks() {
            let x = across.at(mark);
            text += &rule(x, TOP, x, HEIGHT - BOTTOM);
            text += &label(x, HEIGHT - BOTTOM + 16.0, "middle", &thousands(mark.round() as u64));
        }
        text += &label(WIDTH / 2.0, HEIGHT - 12.0, "middle", self.across);
        for (at, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let places: Vec<(f64, f64)> =
                line.points.iter().map(|(x, y)| (across.at(*x), up.at(*y))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            text += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
                path.join(" ")
            );
            for (x, y) in places {
                text += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
            }
            let y = TOP + 14.0 * (at as f64 + 1.0);
            text += &format!(
                "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"3\" fill=\"{colour}\"/>\n",
                LEFT + 8.0,
                y - 4.0
            );
            text += &label(LEFT + 28.0, y, "start", line.name);
        }
        text
    }
}

fn rule(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>\n")
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_their_logarithms_are() {
        let axis = Axis { from: 1.0, to: 100.0, begin: 0.0, end: 200.0 };
        assert_eq!([1.0, 10.0, 100.0].map(|value| axis.at(value).round()), [0.0, 100.0, 200.0]);
        assert_eq!(axis.marks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let wide = Axis { to: 1e6, ..axis };
        assert_eq!(wide.marks().len(), 7);
    }

    #[test]
    fn a_plot_has_a_point_for_each_figure() {
        let line = |name| Line { name, points: vec![(1e3, 1e-5), (1e4, 2e-5), (1e5, 4e-5)] };
        let panel = Panel { title: "a < b", across: "entries", lines: vec![line("ours"), line("floor")] };
        let empty = Panel { title: "none", across: "entries", lines: Vec::new() };
        let text = svg(&[panel, empty]);
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("<circle"), count("<polyline"), count("not measured")), (6, 2, 1));
        assert!(text.contains("a &lt; b") && text.contains(">20 us<") && text.contains(">10 000<"), "{text}");
        assert_eq!(count("<g "), count("</g>"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
