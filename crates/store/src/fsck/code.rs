//! The codes of findings: stable names, what each means and what a repair does about it.

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it may be; worth a line.
    Note,
    /// Wrong, and a repair puts it right.
    Damage,
    /// Bytes are gone: no repair brings them back.
    Loss,
}

impl Severity {
    /// The word that is printed.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Damage => "damage",
            Severity::Loss => "loss",
        }
    }
}

/// What a code stands for.
#[derive(Debug)]
pub struct Meaning {
    /// `F001`.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is the case.
    pub what: &'static str,
    /// What a repair does.
    pub repair: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $severity:ident $what:literal => $repair:literal;)*) => {
        /// The kind of a finding. The number of a code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $what] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// What it stands for.
            pub fn meaning(self) -> &'static Meaning {
                match self {
                    $(Code::$name => &Meaning {
                        name: $code,
                        severity: Severity::$severity,
                        what: $what,
                        repair: $repair,
                    },)*
                }
            }
        }
    };
}

codes! {
    UnknownKey "F001" Note "a key of a kind that this version does not know"
        => "leaves it";
    BadValue "F002" Damage "a key or a value that cannot be read"
        => "removes it; what can be counted again is counted again";
    Engine "F003" Loss "a table of the engine that cannot be read to its end"
        => "of extents F056; of names nothing: load a dump, or copy what a read-only mount shows";
    Counters "F004" Damage "counters of numbers that are behind numbers in use"
        => "raises them";
    Log "F005" Damage "commits that are missing, or a damaged log"
        => "drops what is behind the gap, so that the volume opens for writing again";
    NoTarget "F010" Damage "a name of an inode that is not there"
        => "removes the name";
    WrongType "F011" Damage "a name with another type than its inode"
        => "gives the name the type of the inode";
    BadName "F012" Damage "a name that no file can have"
        => "moves the file to lost+found";
    NoDirectory "F013" Damage "a name inside something that is no directory"
        => "moves the file to lost+found";
    TwoParents "F014" Damage "a directory with more than one name"
        => "keeps the name in the parent that the directory knows, removes the others";
    Ring "F015" Damage "a directory that is inside itself"
        => "moves it to lost+found";
    NoRoot "F016" Damage "no directory at the root"
        => "makes an empty one; what was below it goes to lost+found";
    NoName "F020" Damage "an inode without a name that no program had open"
        => "gives it its number as a name in lost+found";
    Links "F021" Damage "a wrong number of names"
        => "sets the number that was counted";
    NoOrphan "F022" Damage "an inode listed as without a name that has one, or is not there"
        => "removes the entry";
    Orphan "F023" Note "an inode without a name that a program had open"
        => "leaves it; the next mount ends it";
    LostInode "F024" Damage "contents or names of an inode that is not there"
        => "makes the inode anew, for root alone";
    Stray "F025" Damage "a part of an inode that is not there or is of another type"
        => "removes the part";
    Entries "F030" Damage "a wrong number of entries"
        => "sets the number that was counted";
    Subdirectories "F031" Damage "a wrong number of subdirectories"
        => "sets the number that was counted";
    Parent "F032" Damage "a directory that knows another parent than the one it has"
        => "sets the parent";
    Overlap "F040" Damage "two extents for one range of a file"
        => "keeps the one in the newer segment there";
    BehindEnd "F041" Note "written extents behind the end of a file, or any that no file has"
        => "removes them";
    NoSegment "F042" Loss "an extent in a segment that is not there"
        => "leaves it: reads of that range fail; remove or overwrite the file";
    Short "F043" Loss "an extent behind the end of its segment or block"
        => "leaves it: reads of that range fail; remove or overwrite the file";
    NoInline "F044" Loss "an extent whose bytes beside the keys are missing or damaged"
        => "leaves it: reads of that range fail; remove or overwrite the file";
    NoExtent "F045" Damage "bytes beside the keys that no extent names"
        => "removes them";
    Pages "F046" Damage "a wrong number of pages"
        => "sets the number that was counted";
    LeftMap "F047" Damage "extents that belong to no file"
        => "gives their space back";
    SharedMap "F048" Damage "two files with one list of extents"
        => "gives the second a list of its own with the same contents";
    BadExtent "F049" Damage "an extent that cannot be read"
        => "makes reads of that range alone fail";
    Live "F050" Damage "a wrong number of live pages of a segment"
        => "sets the number that was counted";
    NoFile "F051" Damage "a record of a segment that is not there"
        => "removes the record";
    LeftSegment "F052" Note "a segment that no record names"
        => "leaves it; the next mount removes it";
    Strange "F053" Note "a file among the segments that is none"
        => "leaves it";
    SegmentHead "F054" Loss "a segment with a damaged or foreign beginning or end"
        => "leaves it; hearth fsck --data tells which files it hits";
    Block "F055" Loss "a block that is not what was written"
        => "leaves it: reads of that range fail; remove or overwrite the file";
    FoundAgain "F056" Loss "extents that are missing and whose blocks are in segments"
        => "puts the newest blocks there; small writes to that range that came last may be missing";
    Missing "F057" Loss "extents that are missing and cannot be found again"
        => "makes reads of that range fail where it is known; restore the file from a copy";
    LiveMap "F058" Damage "extents of a file that are listed as those of one that ended"
        => "removes them from the list";
    Usage "F060" Damage "a wrong usage of an owner"
        => "sets what was counted";
    Unwritten "F061" Damage "a wrong number of allocated pages"
        => "sets the number that was counted";
}

impl Code {
    /// `F001`.
    pub fn name(self) -> &'static str {
        self.meaning().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_fsck_has_each_code_with_its_meaning() {
        let page = include_str!("../../../../docs/fsck.md");
        for code in Code::ALL {
            let Meaning {
                name,
                severity,
                what,
                repair,
            } = code.meaning();
            let row = format!("| {name} | {} | {what} | {repair} |", severity.word());
            assert!(page.lines().any(|line| line == row), "{row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| F")).count();
        assert_eq!(rows, Code::ALL.len());
    }

    #[test]
    fn codes_rise_and_none_comes_twice() {
        let names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
    }
}
