"""What a split did, or will do: reports, previews and their plan."""
