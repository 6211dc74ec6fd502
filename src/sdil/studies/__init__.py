"""Studies: grids of cells (task, demonstrations, learner, seed), each measured once and kept."""
