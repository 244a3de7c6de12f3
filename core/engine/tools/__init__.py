"""Tool calls: found in the text of an answer, in whichever markup a model family writes them."""
