"""Pure NumPy/SciPy ground floor: input, edges, tables, links, resampling, declarations."""
