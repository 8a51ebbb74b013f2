"""Many pictures: a folder labelled by all GPUs of one or several machines, and a service for single requests.

sources       what is to be labelled: folders, glob patterns, Parquet files; names, and bytes to decode
engine        batches of decoded pictures through a network; on a GPU, copies overlap with computation
gpu_decoding  JPEG files decoded and resized on the GPU, an option of label
parts         the done parts of an output, kept beside it, and joined when all are there
labelling     python -m common label: one process, or Ray Data
spread        the same on Ray Data: decoding on all CPU cores, one worker per GPU
cluster       Ray, started on this machine for this process alone, or joined at RAY_ADDRESS
service       python -m common serve: Ray Serve, with requests that arrive together in one batch
"""
