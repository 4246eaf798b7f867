"""Extensions of Weir, one file each: copy the one that is nearest to what you need."""
