#!/bin/bash
# Runs the rules on the Hearth volume at HERE with the program HEARTH; SCRIPTS is where this file is.
used() { "$HEARTH" quota get --json "$1:$2" "$HERE" | grep '"used"' | tr -dc '0-9\n' | {
    read -r bytes
    read -r inodes
    echo $((bytes / 1024)) "$inodes"
}; }
limit() { "$HEARTH" quota set "$1:$2" --hard "${3}KiB" --inodes-hard "$4" "$HERE"; }
soft() {
    "$HEARTH" quota grace "$1" --bytes 1s "$HERE"
    "$HEARTH" quota set "$1:$2" --soft "${3}KiB" "$HERE"
}
df_kib() { df -k --output=size "$1" | tail -1; }
settle() { sync -f .; }
. "$SCRIPTS/rules.sh"
