//! The report's picture as SVG: lines on logarithmic axes, and bars. It has two sets of colours, for pages that are light
//! and for those that are dark.

use super::figures::{seconds, size, thousands};

/// One part of the picture.
pub(crate) enum Panel {
    Lines(Lines),
    Bars(Bars),
}

/// Lines on logarithmic axes; upward are times.
pub(crate) struct Lines {
    pub(crate) title: &'static str,
    pub(crate) across: Across,
    pub(crate) lines: Vec<Line>,
}

/// A line and what it is called.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What goes across, with the words for it.
pub(crate) enum Across {
    Bytes(&'static str),
    Count(&'static str),
}

/// Times as bars from nought, each with its name.
pub(crate) struct Bars {
    pub(crate) title: &'static str,
    /// The first is ours, the second the floor.
    pub(crate) bars: Vec<(String, f64)>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 54.0;
/// Marks on an axis, at the most.
const MARKS: usize = 8;
/// Of a letter, about.
const LETTER: f64 = 6.2;

/// Told apart by those who see few colours, too, and on both grounds.
const STYLE: &str = "<style>\
.ground{fill:#ffffff}text{fill:#1f2328}.soft{fill:#59636e}.rule{stroke:#d8dee4}.axis{stroke:#59636e}\
.a{stroke:#0969da}.af{fill:#0969da}.b{stroke:#bc4c00}.bf{fill:#bc4c00}.cf{fill:#8c959f}\
@media(prefers-color-scheme:dark){\
.ground{fill:#0d1117}text{fill:#e6edf3}.soft{fill:#9198a1}.rule{stroke:#2b3138}.axis{stroke:#9198a1}\
.a{stroke:#58a6ff}.af{fill:#58a6ff}.b{stroke:#f0883e}.bf{fill:#f0883e}.cf{fill:#6e7681}}\
</style>\n";
/// Of lines and bars in their order: the class of a stroke, of a fill, and how it is dashed.
const LOOKS: [(&str, &str, &str); 2] = [("a", "af", ""), ("b", "bf", " stroke-dasharray=\"6 4\"")];

/// Lines two in a row, and bars over the whole width.
pub(crate) fn svg(panels: &[Panel]) -> String {
    let width = WIDTH * 2.0;
    let (mut drawn, mut x, mut y) = (String::new(), 0.0, 0.0);
    for panel in panels {
        let (panel, taken, height) = match panel {
            Panel::Lines(lines) => (lines.draw(), WIDTH, HEIGHT),
            Panel::Bars(bars) => (bars.draw(width), width, bars.height()),
        };
        if x + taken > width {
            (x, y) = (0.0, y + HEIGHT);
        }
        drawn += &format!("<g transform=\"translate({x},{y})\">\n{panel}</g>\n");
        x += taken;
        if x >= width {
            (x, y) = (0.0, y + height);
        }
    }
    let height = if x > 0.0 { y + HEIGHT } else { y };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui,sans-serif\" font-size=\"11\">\n{STYLE}\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n{drawn}</svg>\n"
    )
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

    /// The same from one power of ten to another.
    fn in_tens(self) -> Self {
        let power = |value: f64| 10f64.powf(value);
        Self { from: power(self.from.log10().floor()), to: power(self.to.log10().ceil()), ..self }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        self.begin + share * (self.end - self.begin)
    }

    /// Powers of `base`, each by all of `steps`, that are on it.
    fn powers(&self, base: f64, steps: &[f64]) -> Vec<f64> {
        let power = |value: f64| value.log10() / base.log10();
        let powers = power(self.from).floor() as i32..=power(self.to).ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * base.powi(power)));
        // What was computed of the axis's ends may be a little beside them.
        all.filter(|mark| (self.from * 0.999..=self.to * 1.001).contains(mark)).collect()
    }

    /// 1, 2 and 5 times powers of ten; fewer where those are many.
    fn marks(&self) -> Vec<f64> {
        let fine = self.powers(10.0, &[1.0, 2.0, 5.0]);
        if fine.len() <= MARKS { fine } else { self.powers(10.0, &[1.0]) }
    }

    /// Powers of two; fewer where those are many.
    fn marks_of_bytes(&self) -> Vec<f64> {
        let powers = |base| self.powers(base, &[1.0]);
        [2.0, 4.0].map(powers).into_iter().find(|marks| marks.len() <= MARKS).unwrap_or_else(|| powers(16.0))
    }
}

impl Across {
    fn words(&self) -> &'static str {
        match self {
            Self::Bytes(words) | Self::Count(words) => words,
        }
    }

    fn marks(&self, axis: &Axis) -> Vec<(f64, String)> {
        match self {
            Self::Bytes(_) => axis.marks_of_bytes().into_iter().map(|mark| (mark, size(mark))).collect(),
            Self::Count(_) => {
                let marks = axis.powers(10.0, &[1.0]).into_iter();
                marks.map(|mark| (mark, thousands(mark.round() as u64))).collect()
            }
        }
    }
}

impl Lines {
    fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let across = Axis::of(points().map(|(x, _)| *x), LEFT, WIDTH - RIGHT);
        let up = Axis::of(points().map(|(_, y)| *y), HEIGHT - BOTTOM, TOP);
        let (Some(across), Some(up)) = (across, up.map(Axis::in_tens)) else {
            return not_measured(self.title, [WIDTH / 2.0, HEIGHT / 2.0]);
        };
        let mut text = title(self.title, WIDTH / 2.0);
        for mark in up.marks() {
            let y = up.at(mark);
            text += &rule("rule", [LEFT, y, WIDTH - RIGHT, y]);
            text += &label(LEFT - 8.0, y + 4.0, "end", "", &seconds(mark).replace(".0 ", " "));
        }
        for (mark, words) in self.across.marks(&across) {
            let x = across.at(mark);
            text += &rule("rule", [x, TOP, x, HEIGHT - BOTTOM]);
            text += &label(x, HEIGHT - BOTTOM + 17.0, "middle", "", &words);
        }
        text += &rule("axis", [LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM]);
        text += &rule("axis", [LEFT, TOP, LEFT, HEIGHT - BOTTOM]);
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        text += &label(middle, HEIGHT - 14.0, "middle", "soft", self.across.words());
        let (x, y) = (18.0, f64::midpoint(TOP, HEIGHT - BOTTOM));
        text += &format!("<g transform=\"translate({x},{y}) rotate(-90)\">\n");
        text += &label(0.0, 0.0, "middle", "soft", "time, logarithmic");
        text += "</g>\n";
        let mut x = LEFT;
        // The last is drawn first, so that ours is above the floor.
        for (line, (stroke, fill, dash)) in self.lines.iter().zip(LOOKS).rev() {
            let places: Vec<(f64, f64)> =
                line.points.iter().map(|(x, y)| (across.at(*x), up.at(*y))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            text += &format!(
                "<polyline class=\"{stroke}\" points=\"{}\" fill=\"none\" stroke-width=\"2\"{dash}/>\n",
                path.join(" ")
            );
            for (x, y) in places {
                text += &format!("<circle class=\"{fill}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n");
            }
        }
        for (line, (stroke, _, dash)) in self.lines.iter().zip(LOOKS) {
            // Above the axes, where no line can be.
            text += &format!(
                "<line class=\"{stroke}\" x1=\"{x:.1}\" y1=\"46\" x2=\"{:.1}\" y2=\"46\" stroke-width=\"2\"{dash}/>\n",
                x + 22.0
            );
            text += &label(x + 28.0, 50.0, "start", "", line.name);
            x += 48.0 + line.name.chars().count() as f64 * LETTER;
        }
        text
    }
}

impl Bars {
    /// Of one, with the space below it.
    const STEP: f64 = 26.0;
    const ABOVE: f64 = 42.0;

    fn height(&self) -> f64 {
        Self::ABOVE + Self::STEP * self.bars.len().max(1) as f64 + 14.0
    }

    fn draw(&self, width: f64) -> String {
        let most = self.bars.iter().map(|(_, time)| *time).fold(0.0, f64::max);
        if most <= 0.0 {
            return not_measured(self.title, [width / 2.0, Self::ABOVE]);
        }
        let longest = self.bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let left = 24.0 + longest as f64 * LETTER;
        let room = width - RIGHT - 54.0 - left;
        let mut text = title(self.title, width / 2.0);
        for (at, (name, time)) in self.bars.iter().enumerate() {
            let y = Self::ABOVE + Self::STEP * at as f64;
            let fill = LOOKS.get(at).map_or("cf", |(_, fill, _)| fill);
            let (long, tall) = (room * time / most, Self::STEP * 0.65);
            text += &label(left - 8.0, y + tall / 2.0 + 4.0, "end", "", name);
            text += &format!(
                "<rect class=\"{fill}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{tall:.1}\"/>\n"
            );
            text += &label(left + long + 6.0, y + tall / 2.0 + 4.0, "start", "", &seconds(*time));
        }
        text
    }
}

fn title(text: &str, x: f64) -> String {
    format!("<g font-size=\"13\" font-weight=\"600\">\n{}</g>\n", label(x, 22.0, "middle", "", text))
}

fn not_measured(of: &str, [x, y]: [f64; 2]) -> String {
    title(of, x) + &label(x, y, "middle", "soft", "not measured")
}

fn rule(class: &str, [x1, y1, x2, y2]: [f64; 4]) -> String {
    format!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

fn label(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
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
    fn marks_of_bytes_are_powers_of_two_and_few() {
        let axis = |from: f64, to: f64| Axis { from, to, begin: 0.0, end: 1.0 };
        assert_eq!(axis(1000.0, 9000.0).marks_of_bytes(), [1024.0, 2048.0, 4096.0, 8192.0]);
        let wide = axis(1600.0, 5_300_000.0).marks_of_bytes();
        assert!(wide.len() <= MARKS && wide.contains(&65536.0), "{wide:?}");
        assert!(axis(1.0, 1e12).marks_of_bytes().iter().all(|mark| mark.log2().fract() == 0.0));
    }

    #[test]
    fn an_axis_in_tens_ends_at_marks() {
        for (least, most) in [(7e-6, 3.3e-5), (1e-5, 1e-4), (8e-6, 9e-3)] {
            let axis = Axis::of([least, most].into_iter(), 0.0, 1.0).unwrap().in_tens();
            assert!(axis.from <= least && axis.to >= most, "{least} {most}");
            let marks = axis.marks();
            let ends = [marks[0] / axis.from, marks[marks.len() - 1] / axis.to];
            assert!(ends.iter().all(|end| (end - 1.0).abs() < 0.01), "{marks:?}");
        }
    }

    #[test]
    fn a_plot_has_a_point_for_each_figure_and_a_bar_for_each_name() {
        let line = |name| Line { name, points: vec![(1e3, 1e-5), (1e4, 2e-5), (1e5, 4e-5)] };
        let lines = |title, lines| Panel::Lines(Lines { title, across: Across::Count("entries"), lines });
        let panels = [
            lines("a < b", vec![line("ours"), line("floor")]),
            lines("none", Vec::new()),
            Panel::Bars(Bars { title: "bars", bars: vec![("us".into(), 1e-5), ("them".into(), 2e-4)] }),
        ];
        let text = svg(&panels);
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("<circle"), count("<polyline"), count("not measured")), (6, 2, 1));
        let bars: Vec<&str> =
            text.lines().filter(|line| line.contains("<rect class=\"") && line.contains("x=")).collect();
        assert_eq!(bars.len(), 2, "{bars:?}");
        assert!(
            text.contains("a &lt; b") && text.contains(">20 us<") && text.contains(">200.0 us<"),
            "{text}"
        );
        assert!(text.contains(&format!(">{}<", thousands(10_000))), "{text}");
        assert_eq!(count("<g "), count("</g>"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn light_and_dark_pages_have_colours_for_the_same_things() {
        let (light, dark) = STYLE.split_once("@media").unwrap();
        for class in ["ground", "soft", "rule", "axis", "a", "af", "b", "bf", "cf"] {
            let rule = format!(".{class}{{");
            assert!(light.contains(&rule) && dark.contains(&rule), "{class}");
        }
    }
}
