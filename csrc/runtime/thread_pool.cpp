namespace verispec {}
