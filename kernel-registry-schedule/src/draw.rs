//! Draws a run as an SVG.

mod rows;
mod svg;

use std::collections::BTreeMap;

use crate::party::Party;
use crate::record::Record;
use rows::{Row, Run, rows};
use svg::{LINE, Svg, wrap, wrap_some};

/// Distance of everything from the edges.
const MARGIN: usize = 16;

/// Width of a lane.
const LANE: usize = 230;

/// Width of a box in its lane.
const BOX: usize = 214;

/// Distance between a box's edge and its text.
const PADDING: usize = 6;

/// Distance between rows.
const BETWEEN: usize = 12;

/// Width of a drawing with a single lane, so that the outcome can be read.
const NARROWEST: usize = 560;

/// How many texts a box shows before it counts the others.
const TEXTS: usize = 4;

/// Returns an SVG of a run: a lane per party, and time runs downwards.
///
/// Boxes show what a party did without a break, or how many choices fell on it if the record has no steps. Departures from
/// the usual order are marked. Of many rows only the first and last ones are drawn, and all departures. `names` returns what
/// a reader calls a party.
///
/// The SVG contains all that it needs, and follows the color scheme of the page.
pub fn draw(title: &str, record: &Record, names: &dyn Fn(Party) -> String) -> String {
    let rows = rows(record);
    let lanes = Lanes::new(&rows);
    let width = (lanes.0.len() * LANE + 2 * MARGIN).max(NARROWEST);
    let mut drawing = Drawing { svg: Svg::default(), lanes, names, width, y: MARGIN };
    drawing.paragraph("title", title);
    let below_names = drawing.lane_names();
    drawing.lane_lines(&rows, below_names);
    drawing.runs(&rows);
    if let Some((kind, text)) = &record.outcome {
        drawing.paragraph("title", &kind.to_string());
        drawing.paragraph("outcome", text);
    }
    let size = (width, drawing.y + MARGIN);
    drawing.svg.finish(title, size)
}

/// The lanes from left to right, each with the party that names it.
struct Lanes(BTreeMap<LaneKey, Party>);

/// Hosts come first, then streams, and then grids with their blocks, each followed by its threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey {
    Host(u32),
    Stream(u32),
    /// The grid, the block, and the warp and lane unless it's the block's own lane.
    Grid(u32, u32, Option<(u32, u32)>),
}

fn lane_key(party: Party) -> LaneKey {
    match party {
        Party::Host(host) => LaneKey::Host(host),
        Party::Stream(stream) | Party::Room(stream) => LaneKey::Stream(stream),
        Party::Block { grid, block } => LaneKey::Grid(grid, block, None),
        Party::Threads { grid, block, warp, lane } => LaneKey::Grid(grid, block, Some((warp, lane))),
    }
}

impl Lanes {
    fn new(rows: &[Row]) -> Self {
        let parties = rows.iter().filter_map(|row| match row {
            Row::Run(run) => Some(run.party),
            Row::Gap(_) => None,
        });
        let named = parties.map(|party| match party {
            Party::Room(stream) => Party::Stream(stream),
            other => other,
        });
        Lanes(named.map(|party| (lane_key(party), party)).collect())
    }

    /// Returns where a party's lane begins.
    fn x(&self, party: Party) -> usize {
        let key = lane_key(party);
        let left = self.0.keys().take_while(|other| **other < key).count();
        MARGIN + left * LANE
    }
}

struct Drawing<'a> {
    svg: Svg,
    lanes: Lanes,
    names: &'a dyn Fn(Party) -> String,
    width: usize,
    /// Everything above is drawn.
    y: usize,
}

/// Text in a box, line by line, each with its class.
type Lines = Vec<(&'static str, String)>;

impl Drawing<'_> {
    fn paragraph(&mut self, class: &str, text: &str) {
        for line in wrap(text, self.width - 2 * MARGIN) {
            self.svg.text(class, (MARGIN, self.y), &line);
            self.y += LINE;
        }
    }

    /// Draws the names of the lanes, and returns where the lanes begin.
    fn lane_names(&mut self) -> usize {
        self.y += LINE / 2;
        let names = self.lanes.0.values().map(|party| wrap_some(&(self.names)(*party), BOX, 3));
        let names: Vec<Vec<String>> = names.collect();
        for (lane, name) in names.iter().enumerate() {
            for (index, line) in name.iter().enumerate() {
                self.svg.text("title", (MARGIN + lane * LANE, self.y + index * LINE), line);
            }
        }
        self.y += names.iter().map(Vec::len).max().unwrap_or(0) * LINE;
        self.y
    }

    /// Draws the lanes' lines, which the boxes cover.
    fn lane_lines(&mut self, rows: &[Row], top: usize) {
        let height: usize = rows.iter().map(|row| BETWEEN + self.height(row)).sum();
        for lane in 0..self.lanes.0.len() {
            let x = MARGIN + lane * LANE + BOX / 2;
            self.svg.line("lane", (x, top), (x, top + height + BETWEEN));
        }
    }

    fn runs(&mut self, rows: &[Row]) {
        // Where the line to the next box begins, unless that's in the same lane.
        let mut from: Option<(usize, usize)> = None;
        for row in rows {
            self.y += BETWEEN;
            let height = self.height(row);
            let run = match row {
                Row::Run(run) => run,
                Row::Gap(count) => {
                    let rows = if *count == 1 { "row" } else { "rows" };
                    self.svg.text("faint", (MARGIN, self.y), &format!("… {count} {rows} left out"));
                    self.y += height;
                    from = None;
                    continue;
                }
            };
            let x = self.lanes.x(run.party);
            let middle = x + BOX / 2;
            let (class, line) =
                if run.instead_of.is_some() { ("departure", "turn") } else { ("run", "flow") };
            if let Some(from) = from.filter(|from| from.0 != middle) {
                self.svg.line(line, from, (middle, self.y));
            }
            self.svg.rectangle(class, (x, self.y), (BOX, height));
            for (index, (class, text)) in self.lines(run).iter().enumerate() {
                self.svg.text(class, (x + PADDING, self.y + PADDING + index * LINE), text);
            }
            self.y += height;
            from = Some((middle, self.y));
        }
        self.y += 2 * BETWEEN;
    }

    fn height(&self, row: &Row) -> usize {
        match row {
            Row::Run(run) => self.lines(run).len() * LINE + 2 * PADDING,
            Row::Gap(_) => LINE,
        }
    }

    /// Returns the text of a box.
    fn lines(&self, run: &Run) -> Lines {
        let inner = BOX - 2 * PADDING;
        let mut lines = Lines::new();
        if let Some(usual) = run.instead_of {
            let label = format!("instead of {}", (self.names)(usual));
            lines.extend(wrap_some(&label, inner, 3).into_iter().map(|line| ("accent", line)));
        }
        if let Party::Room(_) = run.party {
            lines.push(("faint", "in little room".to_owned()));
        }
        let text = |text: &String| wrap_some(text, inner, 2).into_iter().map(|line| ("text", line));
        match &run.texts[..] {
            [] => {
                let choices = if run.choices == 1 { "choice" } else { "choices" };
                lines.push(("faint", format!("{} {choices}", run.choices)));
            }
            // The last one shows how far the party got. Rather one text more than a line that counts one.
            [first @ .., last] if first.len() > TEXTS => {
                lines.extend(first[..TEXTS - 1].iter().flat_map(text));
                lines.push(("faint", format!("… {} more", run.texts.len() - TEXTS)));
                lines.extend(text(last));
            }
            all => lines.extend(all.iter().flat_map(text)),
        }
        lines
    }
}
