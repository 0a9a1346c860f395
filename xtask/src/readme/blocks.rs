//! The commands in the blocks of a page, with what they are shown to print.

/// One block of commands.
pub struct Block {
    /// In the order of the page.
    pub commands: Vec<Shown>,
}

/// One command.
pub struct Shown {
    /// Its line, from 1.
    pub line: usize,
    /// As it is typed, continued lines joined, without the comment behind it.
    pub command: String,
    /// What it prints, where the page shows it. A line `...` stands for any lines.
    pub output: Vec<String>,
}

impl Shown {
    /// Whether it goes on until it is interrupted.
    pub fn watches(&self) -> bool {
        ["--watch", "--follow"]
            .iter()
            .any(|flag| self.command.contains(flag))
    }
}

/// The blocks of console sessions with commands that are to be run.
pub fn of(text: &str) -> Vec<Block> {
    let (mut blocks, mut commands) = (Vec::new(), Vec::<Shown>::new());
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            if is_inside && !commands.is_empty() {
                let commands = std::mem::take(&mut commands);
                blocks.push(Block { commands });
            }
            is_inside = !is_inside && line == "```console";
            continue;
        }
        if !is_inside {
            continue;
        }
        let typed = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
        match (typed, commands.last_mut()) {
            (Some(typed), _) => commands.push(Shown {
                line: number + 1,
                command: without_comment(typed).to_owned(),
                output: Vec::new(),
            }),
            (None, Some(last)) => last.output.push(line.to_owned()),
            (None, None) => {}
        }
    }
    for block in &mut blocks {
        let is_elsewhere = |shown: &Shown| {
            super::ELSEWHERE
                .iter()
                .any(|what| shown.command.starts_with(what))
        };
        block.commands.retain(|shown| !is_elsewhere(shown));
    }
    blocks.retain(|block| !block.commands.is_empty());
    blocks
}

fn without_comment(typed: &str) -> &str {
    typed
        .split_once("   #")
        .map_or(typed, |(command, _)| command)
        .trim_end()
}

/// The page with other outputs, where it shows any that has no `...`.
pub fn with_outputs(
    text: &str,
    blocks: &[Block],
    outputs: impl Iterator<Item = Vec<String>>,
) -> String {
    let commands = blocks.iter().flat_map(|block| &block.commands);
    let mut lines: Vec<Option<String>> = text.lines().map(|line| Some(line.to_owned())).collect();
    for (shown, output) in commands.zip(outputs) {
        if shown.output.is_empty() || shown.output.iter().any(|line| line.trim() == "...") {
            continue;
        }
        let old = shown.line..shown.line + shown.output.len();
        lines[old].fill(None);
        lines[shown.line] = Some(output.join("\n"));
    }
    let mut text = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n```console\n$ one   # why\nfirst\nsecond\n# two\n```\n\
                        ```rust\n$ no\n```\n```console\n$ cargo xtask demo\n```\n";

    #[test]
    fn commands_have_the_output_below_them_and_cargo_runs_elsewhere() {
        let blocks = of(PAGE);
        assert_eq!(blocks.len(), 1);
        let [one, two] = &blocks[0].commands[..] else {
            panic!("two commands");
        };
        assert_eq!((&*one.command, one.line), ("one", 3));
        assert_eq!(one.output, ["first", "second"]);
        assert_eq!((&*two.command, two.output.len()), ("two", 0));
    }

    #[test]
    fn what_was_printed_replaces_what_was_shown() {
        let blocks = of(PAGE);
        let outputs = [vec!["new".to_owned()], vec!["unasked".to_owned()]];
        let text = with_outputs(PAGE, &blocks, outputs.into_iter());
        assert!(text.contains("$ one   # why\nnew\n# two\n```\n"), "{text}");
    }
}
