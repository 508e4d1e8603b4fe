//! The report's picture as SVG: lines on logarithmic axes, two panels in a row, and bars over the whole width.

use plotters::coord::ranged1d::SegmentValue;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::{seconds, size, thousands};

/// One part of the picture.
pub(crate) enum Panel {
    Lines(Lines),
    Bars(Bars),
}

/// Lines on logarithmic axes; times are vertical.
pub(crate) struct Lines {
    pub(crate) title: &'static str,
    pub(crate) across: Across,
    /// Opkeep's, then the floor's.
    pub(crate) lines: Vec<Line>,
}

/// A line and its name.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The quantity of the horizontal axis, with its description.
pub(crate) enum Across {
    Bytes(&'static str),
    Count(&'static str),
}

/// Times as bars from zero, each with its name.
pub(crate) struct Bars {
    pub(crate) title: &'static str,
    /// Opkeep, then the floor, then the others.
    pub(crate) bars: Vec<(String, f64)>,
}

const WIDTH: u32 = 460;
const HEIGHT: u32 = 320;
/// The height of one bar with its space, and of the title.
const STEP: u32 = 26;
const TITLE: u32 = 42;
/// The approximate width of a letter.
const LETTER: f64 = 6.2;
/// Opkeep, the floor, others: distinct in greyscale, too.
const COLOURS: [RGBColor; 3] = [RGBColor(9, 105, 218), RGBColor(188, 76, 0), RGBColor(140, 149, 159)];
const RULE: RGBColor = RGBColor(216, 222, 228);
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

pub(crate) fn svg(panels: &[Panel]) -> Result<String, String> {
    let lines = panels.iter().filter(|panel| matches!(panel, Panel::Lines(_))).count() as u32;
    let bars = panels.iter().map(|panel| match panel {
        Panel::Bars(bars) => bars.height(),
        Panel::Lines(_) => 0,
    });
    let height = lines.div_ceil(2) * HEIGHT + bars.sum::<u32>();
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (2 * WIDTH, height)).into_drawing_area();
    draw(&root, panels).map_err(|error| format!("the plot cannot be drawn: {error}"))?;
    drop(root);
    Ok(text)
}

fn draw(root: &Area<'_>, panels: &[Panel]) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let (mut column, mut y) = (0, 0);
    for panel in panels {
        let (width, height) = match panel {
            Panel::Lines(_) => (WIDTH, HEIGHT),
            Panel::Bars(bars) => (2 * WIDTH, bars.height()),
        };
        if column * WIDTH + width > 2 * WIDTH {
            (column, y) = (0, y + HEIGHT);
        }
        let area = root.clone().shrink((column * WIDTH, y), (width, height));
        match panel {
            Panel::Lines(lines) => lines.draw(&area)?,
            Panel::Bars(bars) => bars.draw(&area)?,
        }
        column += width / WIDTH;
        if column == 2 {
            (column, y) = (0, y + height);
        }
    }
    root.present()?;
    Ok(())
}

impl Across {
    fn description(&self) -> &'static str {
        match self {
            Self::Bytes(text) | Self::Count(text) => text,
        }
    }

    /// The base of the powers that the axis marks.
    fn base(&self) -> f64 {
        match self {
            Self::Bytes(_) => 4.0,
            Self::Count(_) => 10.0,
        }
    }

    fn label(&self, value: f64) -> String {
        match self {
            Self::Bytes(_) => size(value),
            Self::Count(_) => thousands(value.round() as u64),
        }
    }
}

/// The whole powers of `base` around the positive numbers of `values`; `None` if there are none.
fn powers_around(values: impl Iterator<Item = f64>, base: f64) -> Option<(f64, f64)> {
    let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    // The computed logarithms of whole powers differ slightly from whole numbers.
    let (from, to) = ((least.log(base) + 1e-9).floor(), (most.log(base) - 1e-9).ceil());
    Some((base.powf(from), base.powf(to.max(from + 1.0))))
}

impl Lines {
    fn draw(&self, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let across = powers_around(points().map(|(x, _)| *x), self.across.base());
        let (Some(across), Some(up)) = (across, powers_around(points().map(|(_, y)| *y), 10.0)) else {
            return not_measured(area, self.title);
        };
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, (FONT, 13))
            .margin(12)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(
                (across.0..across.1).log_scale().base(self.across.base()),
                (up.0..up.1).log_scale(),
            )?;
        chart
            .configure_mesh()
            .bold_line_style(RULE)
            .max_light_lines(0)
            .x_desc(self.across.description())
            .y_desc("time, logarithmic")
            .x_label_formatter(&|x| self.across.label(*x))
            .y_label_formatter(&|y| seconds(*y).replace(".0 ", " "))
            .label_style((FONT, 11))
            .draw()?;
        // In reverse, so that opkeep's line is above the floor's.
        for (at, line) in self.lines.iter().enumerate().rev() {
            let colour = COLOURS[at.min(COLOURS.len() - 1)];
            let style = colour.stroke_width(2);
            let points = || line.points.iter().copied();
            let series = match at {
                0 => chart.draw_series(LineSeries::new(points(), style))?,
                _ => chart.draw_series(DashedLineSeries::new(points(), 6, 4, style))?,
            };
            series
                .label(line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 11))
            .draw()?;
        Ok(())
    }
}

impl Bars {
    fn height(&self) -> u32 {
        TITLE + STEP * self.bars.len().max(1) as u32 + 14
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let most = self.bars.iter().map(|(_, time)| *time).fold(0.0, f64::max);
        if most <= 0.0 {
            return not_measured(area, self.title);
        }
        let longest = self.bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let count = self.bars.len();
        let name = |place: &SegmentValue<usize>| match place {
            SegmentValue::CenterOf(place) => self
                .bars
                .get((count - 1).saturating_sub(*place))
                .map_or(String::new(), |(name, _)| name.clone()),
            _ => String::new(),
        };
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, (FONT, 13))
            .margin(12)
            .y_label_area_size(24 + (longest as f64 * LETTER) as u32)
            .build_cartesian_2d(RangedCoordf64::from(0.0..most * 1.1), (0..count - 1).into_segmented())?;
        chart
            .configure_mesh()
            .disable_mesh()
            .disable_x_axis()
            .axis_style(TRANSPARENT)
            .y_labels(count)
            .y_label_formatter(&name)
            .label_style((FONT, 11))
            .draw()?;
        let label = (FONT, 11).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        // Segments are counted upwards, and the first bar is at the top.
        for (at, (_, time)) in self.bars.iter().enumerate() {
            let place = count - 1 - at;
            let colour = COLOURS[at.min(COLOURS.len() - 1)];
            let corners = [(0.0, SegmentValue::Exact(place)), (*time, SegmentValue::Exact(place + 1))];
            let mut bar = Rectangle::new(corners, colour.filled());
            bar.set_margin(4, 4, 0, 0);
            chart.draw_series([bar])?;
            let text = Text::new(
                format!(" {}", seconds(*time)),
                (*time, SegmentValue::CenterOf(place)),
                label.clone(),
            );
            chart.draw_series([text])?;
        }
        Ok(())
    }
}

fn not_measured(area: &Area<'_>, title: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (width, height) = area.dim_in_pixel();
    let middle = |size: u32| (FONT, size).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw_text(title, &middle(13), (width as i32 / 2, 20))?;
    area.draw_text("not measured", &middle(11), (width as i32 / 2, (height as i32 / 2).max(36)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_whole_powers() {
        for (least, most, ends) in
            [(7e-6, 3.3e-5, (1e-6, 1e-4)), (1e-5, 1e-4, (1e-5, 1e-4)), (2.0, 2.0, (1.0, 10.0))]
        {
            let (from, to) = powers_around([least, most, 0.0].into_iter(), 10.0).unwrap();
            assert!((from / ends.0 - 1.0).abs() < 1e-6 && (to / ends.1 - 1.0).abs() < 1e-6, "{from} {to}");
        }
        assert_eq!(powers_around([0.0].into_iter(), 10.0), None);
    }

    #[test]
    fn sizes_are_marked_at_powers_of_two() {
        let across = Across::Bytes("bytes");
        let (from, to) = powers_around([1600.0, 5_300_000.0].into_iter(), across.base()).unwrap();
        assert!(from.log2().fract().abs() < 1e-9 && to.log2().fract().abs() < 1e-9, "{from} {to}");
        assert_eq!(
            (across.label(65536.0), Across::Count("entries").label(1e4)),
            ("64 KiB".into(), thousands(10_000))
        );
    }

    fn picture() -> String {
        let line = |name| Line { name, points: vec![(1e3, 1e-5), (1e4, 2e-5), (1e5, 4e-5)] };
        let lines = |title, lines| Panel::Lines(Lines { title, across: Across::Count("entries"), lines });
        let panels = [
            lines("a < b", vec![line("ours"), line("floor")]),
            lines("none", Vec::new()),
            Panel::Bars(Bars { title: "bars", bars: vec![("us".into(), 1e-5), ("them".into(), 2e-4)] }),
        ];
        svg(&panels).unwrap()
    }

    #[test]
    fn a_plot_has_a_point_for_each_figure_and_a_bar_for_each_name() {
        let text = picture();
        let count = |title: &str| text.matches(title).count();
        assert_eq!((count("<circle"), count("not measured")), (6, 1), "{text}");
        let bar = |colour: &str| {
            text.lines().filter(|line| line.contains("<rect") && line.contains(colour)).count()
        };
        assert_eq!((bar("#0969DA"), bar("#BC4C00")), (1, 1), "{text}");
        for shown in
            ["a &lt; b", "20 us", "200.0 us", "ours", "floor", "us", "them", "entries", "time, logarithmic"]
        {
            assert!(
                text.lines().any(|line| line.trim() == shown || line.trim().ends_with(shown)),
                "{shown}: {text}"
            );
        }
        assert!(text.contains(&thousands(10_000)), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn panels_do_not_overlap() {
        let text = picture();
        let height = 320 + 42 + 2 * 26 + 14;
        assert!(text.starts_with(&format!("<svg width=\"920\" height=\"{height}\"")), "{text:.200}");
        let below = |name: &str| {
            text.lines()
                .zip(text.lines().skip(1))
                .find(|(_, next)| next.trim() == name)
                .map(|(line, _)| line.to_owned())
        };
        let y = |name: &str| -> f64 {
            let line = below(name).unwrap();
            line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!(y("a &lt; b") < 320.0 && y("bars") > 320.0 && y("us") < y("them"), "{text}");
    }
}
