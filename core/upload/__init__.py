"""Uploading a model, an adapter or a data set to the Hugging Face Hub.

`plan` tells what will be uploaded without any network, `job` uploads it, `card` writes the model
card. What goes over the wire is huggingface_hub's business; `carrier` is how its requests are
sent.
"""
